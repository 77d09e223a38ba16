// @ts-check
// Makes the finder quicker: it asks for the page that the server renders for what is chosen, and puts its list, points and
// words in place. The page works without it: everything here only repeats what a link or the form would do.

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
  const [state, city, sort] = ["state", "city", "sort"].map((id) => element(id, HTMLSelectElement));
  const words = element("q", HTMLInputElement);
  const locate = element("locate", HTMLButtonElement);
  const map = element("map", SVGSVGElement);
  const notice = element("notice", HTMLElement);
  const body = element("venues", HTMLElement);
  const marked = element("marked", SVGPathElement);
  const explorer = /** @type {HTMLElement} */ (document.querySelector(".explorer"));
  /** @type {AbortController | undefined} */
  let running;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let countdown;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let slow;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;

  /** @returns {Wish} what is chosen now; the place has no field that one types into */
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
    const copied = (/** @type {Iterable<Node>} */ nodes) => [...nodes].map((node) => document.importNode(node, true));
    for (const id of ["summary", "hint", "off-map", "venues", "place", "api-url", "api-order", "downloads", "widget"]) {
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
    for (const id of ["dots", "around"]) element(id, SVGPathElement).setAttribute("d", of(id)?.getAttribute("d") ?? "");
    for (const name of ["aria-label", "viewBox"]) map.setAttribute(name, of("map")?.getAttribute(name) ?? "");
    const chosen = page.querySelector(".states .chosen")?.getAttribute("data-state") ?? null;
    for (const path of document.querySelectorAll(".states path")) {
      path.classList.toggle("chosen", chosen !== null && path.getAttribute("data-state") === chosen);
    }
    marked.setAttribute("d", "");
    const isSame = (/** @type {HTMLSelectElement} */ one, /** @type {HTMLSelectElement} */ other) =>
      one.options.length === other.options.length && [...one.options].every(({ value, text }, at) => value === other.options[at].value && text === other.options[at].text);
    for (const select of form.querySelectorAll("select")) {
      const sent = /** @type {HTMLSelectElement} */ (of(select.id));
      // Choices are laid out at length, and mostly stay.
      if (!isSame(select, sent)) select.replaceChildren(...copied(sent.childNodes));
      select.value = sent.value;
    }
    form.querySelectorAll("input.place").forEach((input) => input.remove());
    form.prepend(...copied(page.querySelectorAll("#filters input.place")));
    locate.setAttribute("aria-pressed", of("locate")?.getAttribute("aria-pressed") ?? "false");
    // What is being typed is newer.
    if (document.activeElement !== words && typing === undefined) words.value = /** @type {HTMLInputElement} */ (of("q")).value;
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
    const tick = () => {
      const left = Math.ceil((until - Date.now()) / 1000);
      if (left > 0) return say(`The limit of requests is reached. Trying again in ${left} s.`);
      clearInterval(countdown);
      say("");
      then();
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

  /**
   * Where a line of the list is on the map, as the server drew it.
   * @param {Element | null} line
   */
  function placeOf(line) {
    const { x, y } = line instanceof HTMLElement ? line.dataset : { x: undefined, y: undefined };
    return x === undefined || y === undefined ? null : [Number(x), Number(y)];
  }

  /** @param {Element | null} line */
  function mark(line) {
    const at = placeOf(line);
    marked.setAttribute("d", at ? `M${at[0]} ${at[1]}h0` : "");
    for (const lit of body.querySelectorAll(".lit")) lit.classList.remove("lit");
    if (at) line?.classList.add("lit");
  }

  /**
   * The line of the list whose dot is under the pointer; null: none within 12 pixels.
   * @param {MouseEvent} event
   */
  function lineUnder(event) {
    const turned = map.getScreenCTM()?.inverse();
    if (!turned) return null;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(turned);
    let [nearest, least] = [/** @type {Element | null} */ (null), 12 * turned.a];
    for (const line of body.children) {
      const place = placeOf(line);
      const away = place ? Math.hypot(place[0] - at.x, place[1] - at.y) : Infinity;
      if (away < least) [nearest, least] = [line, away];
    }
    return nearest;
  }

  document.body.classList.add("live");
  const choose = (/** @type {Wish} */ more) => void show(queryOf({ ...wished(), ...more }), "push");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    choose({});
  });
  form.addEventListener("change", (event) => {
    // A city lies in one state: another state has others.
    if (event.target !== words) choose(event.target === state ? { city: "" } : {});
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
      ({ coords }) => choose({ near: `${coords.latitude.toFixed(3)},${coords.longitude.toFixed(3)}`, radius: "" }),
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
  map.addEventListener("mousemove", (event) => mark(lineUnder(event)));
  map.addEventListener("click", (event) => {
    const line = lineUnder(event);
    if (line) return line.scrollIntoView({ block: "nearest" });
    const slug = event.target instanceof Element ? event.target.getAttribute("data-state") : null;
    if (slug !== null) choose({ state: state.value === slug ? "" : slug, city: "" });
  });
  for (const name of ["mouseover", "focusin"]) {
    body.addEventListener(name, (event) => mark(event.target instanceof Element ? event.target.closest("tr") : null));
  }
  for (const left of [map, body]) left.addEventListener("mouseleave", () => mark(null));
}

if (typeof document !== "undefined") start();
