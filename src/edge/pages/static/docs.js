// @ts-check
// Shows the form of the API's description when somebody asks for it.

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

const viewer = /** @type {HTMLElement} */ (document.getElementById("viewer"));

/** Shows the description, as soon as the server gives it. */
async function start() {
  const answer = await fetch("openapi.json");
  if (answer.status === 429 || answer.status === 503) {
    for (let left = Math.max(1, Number(answer.headers.get("Retry-After")) || 5); left > 0; left -= 1) {
      viewer.textContent = `The limit of requests is reached. Trying again in ${left} s.`;
      await new Promise((resolve) => { setTimeout(resolve, 1000); });
    }
    return start();
  }
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  const spec = await answer.json();
  // What the form begins with: a page of the default size fills screens.
  spec.components.parameters.per_page.example = 2;
  // "Try it out" asks the server as it is named here: another name for it would be another site.
  show({ spec: { ...spec, servers: [{ url: new URL(".", location.href).href }] } });
}

/** The button that loads the form, which is four times as large as all other pages together. */
const button = /** @type {HTMLButtonElement} */ (document.getElementById("try"));

/** Loads the form, and shows it in the place of the reference. */
function open() {
  const reference = /** @type {HTMLElement} */ (document.getElementById("reference"));
  reference.hidden = true;
  const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: button.dataset.css });
  // Before our own, which corrects it.
  document.head.prepend(style);
  const script = Object.assign(document.createElement("script"), { src: button.dataset.js });
  const fail = (/** @type {string} */ why) => {
    viewer.textContent = `The form cannot be shown: ${why}. Try again in a minute.`;
    reference.hidden = false;
  };
  viewer.textContent = "Loading\u2026";
  script.addEventListener("error", () => fail("it cannot be loaded"));
  script.addEventListener("load", () => start().then(() => reference.remove(), (error) => fail(error.message)));
  document.head.append(script);
}

button.hidden = false;
button.addEventListener("click", open);
// A link to an operation of the form opens it.
if (location.hash.startsWith("#/")) open();
