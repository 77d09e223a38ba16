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
    syntaxHighlight: { theme: "obsidian" },
    // Nothing leaves this host.
    validatorUrl: null,
    queryConfigEnabled: false,
  });

const viewer = /** @type {HTMLElement} */ (document.getElementById("viewer"));

/** The button that loads the form, which is four times as large as all other pages together. */
const button = /** @type {HTMLButtonElement} */ (document.getElementById("try"));
/** What is said beside it. */
const status = /** @type {HTMLElement} */ (document.getElementById("said"));

/**
 * What the server answers, as soon as it does: it counts these requests, too.
 * @param {string} path
 * @returns {Promise<Response>}
 */
async function fetched(path) {
  const answer = await fetch(path);
  if (answer.status === 429 || answer.status === 503) {
    for (let left = Math.max(1, Number(answer.headers.get("Retry-After")) || 5); left > 0; left -= 1) {
      status.textContent = `The limit of requests is reached. Trying again in ${left} s.`;
      await new Promise((resolve) => { setTimeout(resolve, 1000); });
    }
    status.textContent = "Loading\u2026";
    return fetched(path);
  }
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer;
}

/** Loads the form, and shows it in the place of the reference. */
async function open() {
  const reference = /** @type {HTMLElement} */ (document.getElementById("reference"));
  const [js, css] = [button.dataset.js ?? "", button.dataset.css ?? ""];
  button.disabled = true;
  status.textContent = "Loading\u2026";
  try {
    const spec = await (await fetched("openapi.json")).json();
    // The elements take them from the browser's cache then: of an element that fails nobody learns why.
    for (const asset of [css, js]) await (await fetched(asset)).text();
    // Before our own, which corrects it.
    document.head.prepend(Object.assign(document.createElement("link"), { rel: "stylesheet", href: css }));
    const script = Object.assign(document.createElement("script"), { src: js });
    await new Promise((resolve, reject) => {
      script.addEventListener("load", resolve);
      script.addEventListener("error", () => reject(new Error("it cannot be loaded")));
      document.head.append(script);
    });
    // What the form begins with: a page of the default size fills screens.
    spec.components.parameters.per_page.example = 2;
    // "Try it out" asks the server as it is named here: another name for it would be another site.
    show({ spec: { ...spec, servers: [{ url: new URL(".", location.href).href }] } });
    reference.remove();
    // The button had it.
    viewer.focus();
  } catch (error) {
    status.textContent = `The form cannot be shown: ${error instanceof Error ? error.message : error}. Try again in a minute.`;
    button.disabled = false;
  }
}

button.hidden = false;
button.addEventListener("click", () => void open());
// A link to an operation of the form opens it.
if (location.hash.startsWith("#/")) void open();
