// @ts-check
// What an operator can do: the requests of the buttons, the question before them, the token, and bundles.

import { h, need } from "./dom.js";
import { counted, short } from "./words.js";

/** @typedef {{ path: string, label: string, done: string, method?: string, ask?: string }} Action */

const TOKEN = "grandstand-token";

/** By name; `id` is a snapshot's. An action without `ask` does no harm and is done at once. @type {Record<string, (id: string) => Action>} */
const ACTIONS = {
  refresh: () => ({ path: "refresh", label: "Refresh now", done: "A refresh begins. Its result shows here." }),
  sync: () => ({
    path: "sync",
    label: "Check every page",
    ask: "The mirror checks every page of the origin with conditional requests. This costs one request of the budget for each 100 listings.",
    done: "The check begins. Its progress shows here.",
  }),
  audit: () => ({
    path: "audit?samples=20",
    label: "Compare 20 requests",
    ask: "20 requests are also sent to the origin, and the answers are compared. This uses the background share of the budget.",
    done: "The comparison begins. Its progress shows here.",
  }),
  accept: () => ({
    path: "snapshots/accept",
    label: "Accept the snapshot",
    ask: "The snapshot that is held back becomes current, with fewer listings than now. Do this only if the origin really lost the others.",
    done: "The next refresh publishes the snapshot.",
  }),
  purge: () => ({
    path: "cache",
    method: "DELETE",
    label: "Purge the cache",
    ask: "All cached answers are dropped. They are rendered or fetched again when a client asks for them.",
    done: "The cache is empty.",
  }),
  release: () => ({
    path: "snapshots/release",
    label: "Release",
    ask: "The newest snapshot becomes current again, and later ones follow it.",
    done: "The newest snapshot is current again.",
  }),
  rollback: (id) => ({
    path: `snapshots/${id}/rollback`,
    label: "Roll back",
    ask: `Clients get snapshot ${short(id)} until you release it. Refreshes continue; newer snapshots wait.`,
    done: `Snapshot ${short(id)} is current now. Release it to get the newest one again.`,
  }),
  pin: (id) => ({ path: `snapshots/${id}/pin`, label: "Pin", done: `Snapshot ${short(id)} is pinned: it is kept until you unpin it.` }),
  unpin: (id) => ({
    path: `snapshots/${id}/unpin`,
    label: "Unpin",
    ask: `Normal retention applies to snapshot ${short(id)} again; it may be removed soon.`,
    done: `Snapshot ${short(id)} is not pinned now.`,
  }),
  verify: (id) => ({ path: `snapshots/${id}/verify`, label: "Verify", done: `Snapshot ${short(id)} is intact: every hash is right.` }),
};

/** Whether the server takes actions: `free`, `token` or `refused`. */
let writes = "free";
let token = sessionStorage.getItem(TOKEN) ?? "";
/** What is done after an action. */
let look = () => {};

/**
 * @param {string} action
 * @param {string} [snapshot] its id
 * @param {string} [place] tells two buttons for one action apart
 */
export function button(action, snapshot = "", place = "") {
  const id = `do-${[action, snapshot, place].filter(Boolean).join("-")}`;
  const data = { "data-action": action, "data-snapshot": snapshot };
  const about = snapshot && h("span.unseen", {}, ` snapshot ${short(snapshot)}`);
  return h("button", { type: "button", id, disabled: writes === "refused", ...data }, ACTIONS[action](snapshot).label, about);
}

/** A link to a delta. @param {string} snapshot its base */
export function delta(snapshot) {
  if (writes === "refused") return null;
  const about = h("span.unseen", {}, ` bundle since snapshot ${short(snapshot)}`);
  return h("a.download", { id: `delta-${snapshot}`, href: `bundle?since=${snapshot}`, download: true }, "Delta", about);
}

/** Shows what the server allows. @param {string} allowed see `writes` @param {boolean} hasSnapshots */
export function allow(allowed, hasSnapshots) {
  writes = allowed;
  const isOff = writes === "refused";
  need("off", HTMLElement).hidden = !isOff;
  need("bundles", HTMLElement).hidden = !hasSnapshots;
  need("bundle", HTMLElement).hidden = isOff;
  need("import", HTMLFieldSetElement).disabled = isOff;
}

const outcome = need("outcome", HTMLElement);
/** @param {string} text */
const say = (text) => { outcome.textContent = text; };

/** @param {unknown} error */
export const why = (error) => (error instanceof Error ? error.message : String(error));

/**
 * Asks whether to do it, and for the token where it is wanted and not known; true at once where nothing is to ask.
 * @param {string} title
 * @param {string} [text]
 * @returns {Promise<boolean>}
 */
function confirmed(title, text = "") {
  const [dialog, field] = [need("ask", HTMLDialogElement), need("token", HTMLInputElement)];
  const wanted = writes === "token" && !token;
  say("");
  if (!text && !wanted) return Promise.resolve(true);
  need("ask-title", HTMLElement).textContent = title;
  need("ask-text", HTMLElement).textContent = text;
  need("ask-token", HTMLElement).hidden = !wanted;
  field.required = wanted;
  dialog.returnValue = "no";
  dialog.showModal();
  (wanted ? field : need("ask-no", HTMLElement)).focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const yes = dialog.returnValue === "yes";
      if (wanted && yes) sessionStorage.setItem(TOKEN, (token = field.value));
      field.value = "";
      resolve(yes);
    }, { once: true });
  });
}

/** @returns {Record<string, string>} */
const credentials = () => (writes === "token" ? { Authorization: `Bearer ${token}` } : {});

/**
 * What came of a request, in words.
 * @param {number} status
 * @param {string} text the body of the answer
 * @param {string} done what to say if it was done
 */
function told(status, text, done) {
  /** @type {Record<string, any>} */
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    // What is no JSON says nothing that people could use.
  }
  if (status === 403 && writes === "token") {
    token = "";
    sessionStorage.removeItem(TOKEN);
    return `Not done. The token is wrong, or the request was refused: ${body.detail ?? status}`;
  }
  if (status < 200 || status > 299) return `Not done: ${body.detail ?? `the server answers ${status}`}`;
  if (body.whole === false) return `The snapshot is damaged: ${body.damage}`;
  if (!body.imported) return done;
  const waits = body.served === false ? " It waits until the rollback is released." : "";
  return `Imported: snapshot ${short(String(body.imported))} with ${counted(body.listings, "listing")}.${waits}`;
}

/** @param {HTMLButtonElement} pressed */
async function act({ dataset }) {
  const { path, method = "POST", label, ask, done } = ACTIONS[dataset.action ?? ""](dataset.snapshot ?? "");
  if (!(await confirmed(label, ask))) return;
  say(`${label}: in progress …`);
  try {
    const answer = await fetch(path, { method, headers: credentials() });
    say(told(answer.status, await answer.text(), done));
  } catch (error) {
    say(`Not done: the server does not answer (${why(error)}).`);
  }
  look();
}

/** Fetches a bundle with the token, which a link cannot send, and saves it. @param {HTMLAnchorElement} link */
async function download(link) {
  const effect = "The bundle is written now. It is the size of all data; the browser holds it until it is saved.";
  if (!(await confirmed(link.textContent ?? "", effect))) return;
  say("The bundle is being written …");
  try {
    const answer = await fetch(link.href, { headers: credentials() });
    if (!answer.ok) {
      say(told(answer.status, await answer.text(), ""));
      return;
    }
    const named = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "");
    const saved = document.createElement("a");
    saved.href = URL.createObjectURL(await answer.blob());
    saved.download = named?.[1] ?? "bundle.gsb";
    saved.click();
    setTimeout(() => URL.revokeObjectURL(saved.href), 60000);
    say("The bundle is complete.");
  } catch (error) {
    say(`No bundle: the server does not answer (${why(error)}).`);
  }
}

/** Sends the bundle that was chosen, and shows how far it is. */
async function upload() {
  const bundle = need("file", HTMLInputElement).files?.[0];
  const signature = need("signature", HTMLInputElement).files?.[0];
  const effect = "The bundle is checked as a whole. Then clients get the bundle's data, unless a rollback is in effect.";
  if (!bundle || !(await confirmed(`Import ${bundle.name}`, effect))) return;
  const [request, sent] = [new XMLHttpRequest(), need("sent", HTMLProgressElement)];
  request.open("POST", need("older", HTMLInputElement).checked ? "bundle?allow_older=true" : "bundle");
  for (const [name, value] of Object.entries(credentials())) request.setRequestHeader(name, value);
  if (signature) request.setRequestHeader("Bundle-Signature", encodeURIComponent(await signature.text()));
  request.upload.addEventListener("progress", ({ loaded, total }) => { sent.value = loaded / Math.max(total, 1); });
  request.addEventListener("load", () => say(told(request.status, request.responseText, "The bundle is imported.")));
  request.addEventListener("error", () => say("Not imported: the connection broke off. The list of warnings may say why."));
  request.addEventListener("loadend", () => {
    sent.hidden = true;
    look();
  });
  [sent.value, sent.hidden] = [0, false];
  say(`${bundle.name} is being sent …`);
  request.send(bundle);
}

/** Listens to buttons and links. @param {() => void} afterwards */
export function listen(afterwards) {
  look = afterwards;
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const pressed = target?.closest("button");
    const link = target?.closest("a.download");
    if (pressed?.dataset.action) act(pressed);
    if (link instanceof HTMLAnchorElement && writes === "token") {
      event.preventDefault();
      download(link);
    }
  });
  outcome.addEventListener("click", () => say(""));
  need("ask-no", HTMLElement).addEventListener("click", () => need("ask", HTMLDialogElement).close("no"));
  need("upload", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    upload();
  });
}
