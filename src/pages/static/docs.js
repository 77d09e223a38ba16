// @ts-check
// Starts the viewer of the API's description.

/**
 * What the viewer lacks for people who cannot see it or use no mouse: landmarks, a heading above the groups of operations,
 * names of choices, and no link or button inside the button that opens an operation.
 * @param {any} system the viewer's parts, React among them
 */
function accessible({ React: { createElement } }) {
  /**
   * Puts a part into an element, after some more.
   * @param {string} name
   * @param {object | null} attributes
   * @param {...any} before
   */
  const within = (name, attributes, ...before) => (/** @type {any} */ Part) => (/** @type {any} */ given) =>
    createElement(name, attributes, ...before, createElement(Part, given));
  const unseen = (/** @type {string} */ name, /** @type {string} */ text) => createElement(name, { className: "unseen" }, text);
  return {
    wrapComponents: {
      InfoContainer: within("section", { "aria-label": "About this API" }),
      operations: within("div", null, unseen("h2", "Operations")),
      ExamplesSelect: within("label", null, unseen("span", "Example")),
      // It scrolls, so the keyboard must reach it.
      HighlightCode: within("div", { className: "reached", tabIndex: 0 }),
      DeepLink: () => (/** @type {any} */ { text }) => createElement("span", null, text),
      CopyToClipboardBtn: () => () => null,
    },
  };
}

const show = (/** @type {object} */ description) =>
  /** @type {any} */ (globalThis).SwaggerUIBundle({
    ...description,
    dom_id: "#viewer",
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    plugins: [accessible],
    syntaxHighlight: { theme: "monokai" },
    // Nothing leaves this host.
    validatorUrl: null,
    queryConfigEnabled: false,
  });

// "Try it out" asks the server as it is named here: another name for it would be another site.
fetch("openapi.json")
  .then((answer) => answer.json())
  .then((spec) => {
    // What the form begins with: a page of the default size fills screens.
    spec.components.parameters.per_page.example = 2;
    show({ spec: { ...spec, servers: [{ url: new URL(".", location.href).href }] } });
  })
  .catch(() => show({ url: "openapi.json" }));
