// @ts-check
/*
 * The operator's page: keeps what is shown up to date, and sends what a button says after it has asked.
 *
 * The server renders everything. This script fetches the part that changes, puts the sections that differ in their
 * places, and leaves alone what somebody uses. It keeps the token for this tab only, and only if it is told to.
 */

/** Milliseconds between two updates. */
const EVERY = 2000;
/** Milliseconds after which an update is given up. */
const PATIENCE = 10000;
/** Where the token is kept, for this tab. */
const TOKEN = "grandstand-token";

/**
 * The element with this id, which has to be there.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {{ new (): T }} kind
 * @returns {T}
 */
function need(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`there is no #${id}`);
  return found;
}

const live = need("live", HTMLElement);
const outcome = need("outcome", HTMLElement);
const lost = need("lost", HTMLElement);
const dialog = need("ask", HTMLDialogElement);
const writes = document.body.dataset.writes;

let token = sessionStorage.getItem(TOKEN) ?? "";

/** @param {unknown} error */
function why(error) {
  return error instanceof Error ? error.message : String(error);
}

function time() {
  return new Date().toLocaleTimeString([], { hour12: false });
}

// --- What is shown

/** The text of each section as the server sent it. @type {Map<string, string>} */
const shown = new Map();
for (const section of live.children) shown.set(section.id, section.outerHTML);

/**
 * Whether somebody has selected text in an element, which a new one would take away.
 * @param {Element} element
 */
function isSelected(element) {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
}

/**
 * Puts a new section in the place of an old one, and keeps what is open, scrolled and focused in it.
 * @param {Element} old
 * @param {Element} fresh
 */
function replace(old, fresh) {
  const open = [...old.querySelectorAll("details[open]")].map((details) => details.id);
  const scrolled = [...old.querySelectorAll(".wide")].map((wide) => wide.scrollLeft);
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  for (const details of fresh.querySelectorAll("details")) details.open = open.includes(details.id);
  const wides = [...old.querySelectorAll(".wide")];
  old.replaceWith(fresh);
  fresh.querySelectorAll(".wide").forEach((wide, at) => { wide.scrollLeft = scrolled[at] ?? 0; });
  if (!focused) return;
  const again = focused.id ? document.getElementById(focused.id) : fresh.querySelectorAll(".wide")[wides.indexOf(focused)];
  if (again instanceof HTMLElement) again.focus({ preventScroll: true });
  else if (focused instanceof HTMLElement && focused.tagName === "SUMMARY") fresh.querySelector("summary")?.focus({ preventScroll: true });
  else live.focus({ preventScroll: true });
}

/**
 * Shows what the server sent.
 * @param {string} text
 */
function show(text) {
  const sections = [...new DOMParser().parseFromString(text, "text/html").body.children];
  const ids = new Set(sections.map((section) => section.id));
  for (const old of [...live.children]) {
    if (!ids.has(old.id)) old.remove();
  }
  sections.forEach((section, at) => {
    const old = document.getElementById(section.id);
    if (old && (shown.get(section.id) === section.outerHTML || isSelected(old))) return;
    shown.set(section.id, section.outerHTML);
    const fresh = document.importNode(section, true);
    if (old) replace(old, fresh);
    else live.insertBefore(fresh, live.children[at] ?? null);
    if (section.id === "health") tell(fresh);
  });
}

/**
 * Says a new state in the title, and to those who do not see it.
 * @param {Element} health
 */
function tell(health) {
  if (!(health instanceof HTMLElement)) return;
  const title = health.dataset.title ?? "";
  if (title === document.title) return;
  document.title = title;
  need("spoken", HTMLElement).textContent = health.textContent;
}

let timer = 0;
let isUpdating = false;

async function update() {
  clearTimeout(timer);
  if (document.hidden || isUpdating) return;
  isUpdating = true;
  try {
    const span = new URLSearchParams(location.search).get("span") ?? "minutes";
    const answer = await fetch(`?fragment&span=${encodeURIComponent(span)}`, { signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    show(await answer.text());
    lost.hidden = true;
    need("clock", HTMLElement).textContent = `Updated ${time()}`;
  } catch (error) {
    if (lost.hidden) {
      lost.textContent = `The server does not answer since ${time()} (${why(error)}). What you see is from then. It is tried again by itself.`;
      lost.hidden = false;
    }
  } finally {
    isUpdating = false;
    timer = setTimeout(update, EVERY);
  }
}

document.addEventListener("visibilitychange", update);
update();

// --- What can be done

/** @param {string} text */
function say(text) {
  outcome.textContent = text;
}

outcome.addEventListener("click", () => say(""));

/**
 * Asks whether to do it, and for the token where one is needed.
 * @param {string} title
 * @param {string} text
 * @returns {Promise<boolean>}
 */
function confirmed(title, text) {
  need("ask-title", HTMLElement).textContent = title;
  need("ask-text", HTMLElement).textContent = text;
  const field = writes === "token" ? need("token", HTMLInputElement) : null;
  if (field) field.value = token;
  say("");
  dialog.returnValue = "no";
  dialog.showModal();
  if (field && !token) field.focus();
  else need("ask-no", HTMLElement).focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const yes = dialog.returnValue === "yes";
      if (field && yes) {
        token = field.value;
        if (need("keep", HTMLInputElement).checked) sessionStorage.setItem(TOKEN, token);
      }
      if (field) field.value = "";
      resolve(yes);
    }, { once: true });
  });
}

need("ask-no", HTMLButtonElement).addEventListener("click", () => dialog.close("no"));

/** @returns {Record<string, string>} */
function credentials() {
  return writes === "token" ? { Authorization: `Bearer ${token}` } : {};
}

/**
 * What came of a command, in words.
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
  if (body.imported) {
    const waits = body.served === false ? " It waits until the rollback is released." : "";
    return `Imported: snapshot ${String(body.imported).slice(0, 12)} with ${body.listings} listings.${waits}`;
  }
  return done;
}

/** @param {HTMLButtonElement} button */
async function act(button) {
  const { method = "POST", path = "", ask = "", done = "" } = button.dataset;
  const title = button.textContent?.trim() ?? "";
  if (!(await confirmed(title, ask))) return;
  say(`${title}: in progress …`);
  try {
    const answer = await fetch(path, { method, headers: credentials() });
    say(told(answer.status, await answer.text(), done));
  } catch (error) {
    say(`Not done: the server does not answer (${why(error)}).`);
  }
  update();
}

/**
 * Fetches a bundle with the token, which a link cannot send, and saves it.
 * @param {HTMLAnchorElement} link
 */
async function download(link) {
  const title = link.textContent?.trim() ?? "";
  if (!(await confirmed(title, "The bundle is written now. It is the size of all data; the browser holds it until it is saved."))) return;
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

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  const button = target?.closest("button[data-path]");
  const link = target?.closest("a.download");
  if (button instanceof HTMLButtonElement) {
    act(button);
  } else if (link instanceof HTMLAnchorElement && writes === "token") {
    event.preventDefault();
    download(link);
  }
});

/**
 * Sends a bundle, showing how far it is.
 * @param {Blob} bundle
 * @param {string} path
 * @param {Record<string, string>} headers
 * @returns {Promise<string>} what came of it
 */
function upload(bundle, path, headers) {
  const sent = need("sent", HTMLProgressElement);
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => { sent.value = event.loaded / Math.max(event.total, 1); });
    request.addEventListener("load", () => resolve(told(request.status, request.responseText, "The bundle is imported.")));
    request.addEventListener("error", () => resolve("Not imported: the connection broke off. The list of warnings may say why."));
    request.addEventListener("loadend", () => { sent.hidden = true; });
    sent.value = 0;
    sent.hidden = false;
    request.send(bundle);
  });
}

const form = document.getElementById("upload");
form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const bundle = need("file", HTMLInputElement).files?.[0];
  const signature = need("signature", HTMLInputElement).files?.[0];
  if (!bundle || !(await confirmed(`Import ${bundle.name}`, form.dataset.ask ?? ""))) return;
  const headers = credentials();
  if (signature) headers["Bundle-Signature"] = encodeURIComponent(await signature.text());
  say(`${bundle.name} is being sent …`);
  const older = need("older", HTMLInputElement).checked;
  say(await upload(bundle, older ? "bundle?allow_older=true" : "bundle", headers));
  update();
});
