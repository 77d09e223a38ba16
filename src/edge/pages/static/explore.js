// @ts-check
// Makes the finder quicker: it asks for the page that the server renders for what is chosen, and puts its list and words in
// place; `map.js` draws what the list has then. The page works without it: everything here only repeats what a link or the form would do.

/** The parameters of a query, in the order in which the finder writes them. */
const NAMES = /** @type {const} */ (["q", "near", "radius", "bbox", "sport", "state", "city", "sort"]);
/** The pause in typing after which the server is asked, in milliseconds. */
const PAUSE = 300;

/** @typedef {Partial<Record<typeof NAMES[number], string>>} Wish */

/**
 * The query of a wish, as the finder writes it.
 * @param {Wish} wish
 * @returns {string} empty, or with its question mark
 */
export function queryOf(wish) {
  const parts = NAMES.filter((name) => wish[name]).map((name) => `${name}=${encodeURIComponent(wish[name] ?? "")}`);
  return parts.length > 0 ? `?${parts.join("&")}` : "";
}

/** The server refuses for so many seconds. */
export class Refused extends Error {
  /** @param {number} seconds */
  constructor(seconds) {
    super(`refused for ${seconds} s`);
    this.seconds = seconds;
  }
}

/**
 * The text of a rendered page.
 * @param {Response} answer
 * @returns {Promise<string>}
 */
export async function rendered(answer) {
  if (answer.status === 429 || answer.status === 503) {
    throw new Refused(Math.max(1, Number(answer.headers.get("Retry-After")) || 5));
  }
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.text();
}

/**
 * The element of an id, of the class that it must have.
 * @template {Element} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
function element(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`#${id} is missing`);
  return found;
}

/** Takes the page over. */
function start() {
  const form = element("filters", HTMLFormElement);
  const state = element("state", HTMLSelectElement);
  const words = element("q", HTMLInputElement);
  const locate = element("locate", HTMLButtonElement);
  const map = element("map", HTMLElement);
  const notice = element("notice", HTMLElement);
  const explorer = /** @type {HTMLElement} */ (document.querySelector(".explorer"));
  /** @type {AbortController | undefined} */
  let running;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let countdown;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let slow;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;

  /** @returns {Wish} what is chosen now */
  const wished = () => {
    const chosen = [...new FormData(form)].map(([name, value]) => [name, String(value).trim()]);
    return Object.fromEntries(chosen);
  };

  /**
   * Puts what the server rendered in place of what is shown.
   * @param {Document} page
   */
  function put(page) {
    const of = (/** @type {string} */ id) => page.getElementById(id);
    if (!of("venues") || !of("filters")) throw new Error("the answer is not a page of the finder");
    document.title = page.title;
    const copied = (/** @type {Iterable<Node>} */ nodes) => [...nodes].map((node) => document.importNode(node, true));
    for (const id of ["summary", "hint", "off-map", "venues", "empty", "place", "api-url", "api-order", "downloads", "widget"]) {
      element(id, HTMLElement).replaceChildren(...copied(of(id)?.childNodes ?? []));
    }
    for (const id of ["empty", "pager"]) element(id, HTMLElement).hidden = of(id)?.hidden ?? true;
    // The links stay, with the focus.
    for (const id of ["prev", "next", "api-link"]) {
      const href = of(id)?.getAttribute("href");
      if (href) element(id, HTMLAnchorElement).href = href;
      else element(id, HTMLAnchorElement).removeAttribute("href");
    }
    explorer.classList.toggle("near", page.querySelector(".explorer.near") !== null);
    for (const name of ["aria-label", "data-extent", "data-points", "data-near"]) {
      const value = of("map")?.getAttribute(name);
      if (value) map.setAttribute(name, value);
      else map.removeAttribute(name);
    }
    const isSame = (/** @type {HTMLSelectElement} */ one, /** @type {HTMLSelectElement} */ other) =>
      one.options.length === other.options.length && [...one.options].every(({ value, text }, at) => value === other.options[at].value && text === other.options[at].text);
    for (const select of form.querySelectorAll("select")) {
      const sent = /** @type {HTMLSelectElement} */ (of(select.id));
      // Choices are laid out at length, and mostly stay.
      if (!isSame(select, sent)) select.replaceChildren(...copied(sent.childNodes));
      select.value = sent.value;
    }
    const [cities, suggested] = [element("cities", HTMLElement), of("cities")];
    if (suggested && !cities.isEqualNode(suggested)) cities.replaceChildren(...copied(suggested.childNodes));
    for (const id of ["city", "near"]) {
      if (document.activeElement?.id !== id) element(id, HTMLInputElement).value = /** @type {HTMLInputElement} */ (of(id)).value;
    }
    form.querySelectorAll("input.place").forEach((input) => input.remove());
    form.prepend(...copied(page.querySelectorAll("#filters input.place")));
    locate.setAttribute("aria-pressed", of("locate")?.getAttribute("aria-pressed") ?? "false");
    // What is being typed is newer.
    if (document.activeElement !== words && typing === undefined) words.value = /** @type {HTMLInputElement} */ (of("q")).value;
    document.dispatchEvent(new Event("listed"));
  }

  /** @param {string} text */
  function say(text) {
    notice.textContent = text;
    notice.hidden = text === "";
  }

  /**
   * @param {number} seconds
   * @param {() => void} then
   */
  function wait(seconds, then) {
    const until = Date.now() + seconds * 1000;
    say("Too many requests, or a busy server. Trying again by itself");
    // Screen readers say the alert once, not each second.
    const shown = Object.assign(document.createElement("span"), { ariaHidden: "true" });
    notice.append(shown);
    const tick = () => {
      const left = Math.ceil((until - Date.now()) / 1000);
      if (left <= 0) return then();
      shown.textContent = ` in ${left} s.`;
    };
    tick();
    countdown = setInterval(tick, 1000);
  }

  /**
   * Shows what a query of the finder selects.
   * @param {string} query
   * @param {"push" | "replace" | "keep"} history
   */
  async function show(query, history) {
    running?.abort();
    clearTimeout(typing);
    typing = undefined;
    clearInterval(countdown);
    say("");
    const mine = new AbortController();
    running = mine;
    if (history === "push") window.history.pushState(null, "", `explore${query}`);
    if (history === "replace") window.history.replaceState(null, "", `explore${query}`);
    explorer.classList.add("busy");
    explorer.setAttribute("aria-busy", "true");
    clearTimeout(slow);
    slow = setTimeout(() => explorer.classList.add("slow"), 200);
    try {
      const text = await rendered(await fetch(`explore${query}`, { headers: { Accept: "text/html" }, signal: mine.signal }));
      if (running === mine) put(new DOMParser().parseFromString(text, "text/html"));
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Refused) wait(error.seconds, () => void show(query, "keep"));
      else if (!navigator.onLine) say("This device is offline. What is shown was found before.");
      else say(`The list cannot be shown: ${error instanceof Error ? error.message : error}.`);
    } finally {
      if (running === mine) {
        clearTimeout(slow);
        explorer.classList.remove("busy", "slow");
        explorer.removeAttribute("aria-busy");
      }
    }
  }

  document.body.classList.add("live");
  const choose = (/** @type {Wish} */ more) => void show(queryOf({ ...wished(), ...more }), "push");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    choose({});
  });
  form.addEventListener("change", (event) => {
    // A city lies in one state: another state has others.
    if (event.target !== words && /** @type {Element} */ (event.target).id !== "more") choose(event.target === state ? { city: "" } : {});
  });
  words.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => void show(queryOf(wished()), "replace"), PAUSE);
  });
  locate.hidden = !("geolocation" in navigator);
  locate.addEventListener("click", () => {
    if (locate.getAttribute("aria-pressed") === "true") return choose({ near: "", radius: "" });
    navigator.geolocation.getCurrentPosition(
      // To a hundred metres: the place is sent to the server and shown in the address.
      ({ coords }) => choose({ near: `${coords.latitude.toFixed(3)},${coords.longitude.toFixed(3)}` }),
      (error) => say(`The browser does not tell the position: ${error.message || "it was refused"}. Allow it in the browser's settings, or choose a city.`),
      { maximumAge: 300_000, timeout: 20_000 },
    );
  });
  element("pager", HTMLElement).addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    void show(new URL(link.href).search, "push");
    document.getElementById("list-title")?.scrollIntoView({ block: "nearest" });
  });
  window.addEventListener("popstate", () => void show(location.search, "keep"));
  window.addEventListener("online", () => notice.hidden || void show(location.search, "keep"));
}

if (typeof document !== "undefined") start();
