// @ts-check
// Makes the finder quicker: it answers while one types, by the public API and its entity tags, like any client.
// The page works without it: everything here only repeats what a link or the form would do.

/**
 * @typedef {{ q: string, near: string, radius: string, bbox: string, sport: string, state: string, city: string,
 *   sort: string, page: number }} Wish
 * @typedef {{ id: number, name?: string | null, url?: string | null, city?: string | null, state?: string | null,
 *   sport?: string | null, lat?: number | null, lng?: number | null, rating?: number | null,
 *   review_count?: number | null }} Venue
 * @typedef {{ listing: Venue, distance_km?: number }} Hit
 * @typedef {{ page: number, per_page: number, total: number, total_pages: number, items: (Venue | Hit)[] }} List
 */

const PER_PAGE = 50;
/** The most venues of a search that the page shows, as the server has it. */
const MOST_SHOWN = 20_000;
const MOST_IN_A_LIST = 200;
const SEARCHES = /** @type {const} */ (["q", "near", "radius", "bbox"]);
const FILTERS = /** @type {const} */ (["sport", "state", "city"]);
const NAMES = /** @type {const} */ ([...SEARCHES, ...FILTERS, "sort"]);

/**
 * The query of a wish, canonical: as the API and the finder write it.
 * @param {Wish} wish
 * @param {readonly (typeof NAMES[number])[]} [names]
 * @returns {string} empty, or with its question mark
 */
export function queryOf(wish, names = NAMES) {
  const parts = names.filter((name) => wish[name] !== "").map((name) => `${name}=${encodeURIComponent(wish[name])}`);
  if (wish.page > 1) parts.push(`page=${wish.page}`);
  return parts.length > 0 ? `?${parts.join("&")}` : "";
}

/**
 * The wish that a query names.
 * @param {string} query
 * @returns {Wish}
 */
export function wishOf(query) {
  const given = new URLSearchParams(query);
  const page = /^[0-9]+$/.test(given.get("page") ?? "") ? Number(given.get("page")) : 1;
  const [q, near, radius, bbox, sport, state, city, sort] = NAMES.map((name) => given.get(name) ?? "");
  return { q, near, radius, bbox, sport, state, city, sort, page: Math.max(1, page) };
}

/**
 * Whether the list of the API cannot have the same venues in the same order, and a search can.
 * @param {Wish} wish
 */
export const searches = (wish) =>
  SEARCHES.some((name) => wish[name] !== "") || (wish.sort !== "" && FILTERS.some((name) => wish[name] !== ""));

/**
 * The request to the API for a wish; relative.
 * @param {Wish} wish
 * @returns {string}
 */
export function requestOf(wish) {
  if (!searches(wish)) return `api/listings.json${queryOf(wish, FILTERS)}`;
  return `search.json${queryOf(wish)}`;
}

/**
 * A distance as the server writes it.
 * @param {number | undefined} km
 * @returns {string}
 */
export function distanceOf(km) {
  if (km === undefined) return "";
  if (km < 1) return `${Math.round(km * 1000)} m`;
  return km < 9.95 ? `${km.toFixed(1)} km` : `${Math.floor(km + 0.5).toLocaleString("en-US")} km`;
}

/** Where the map is drawn: the same figures as in map.rs. */
const INSETS = [
  { meridian: -96, center: [-0.6, 38.7], parallels: [29.5, 45.5], size: 1, shift: [0, 0], frame: [-0.455, -0.238, 0.455, 0.238] },
  { meridian: -154, center: [-2, 58.5], parallels: [55, 65], size: 0.35, shift: [-0.307, 0.201], frame: [-0.425, 0.12, -0.214, 0.234] },
  { meridian: -157, center: [-3, 19.9], parallels: [8, 18], size: 1, shift: [-0.205, 0.212], frame: [-0.214, 0.166, -0.115, 0.234] },
];
const [SCALE, MIDDLE, WIDTH, HEIGHT] = [1300, [487.5, 305], 9750, 6100];
const radians = (/** @type {number} */ degrees) => (degrees * Math.PI) / 180;

/**
 * Albers' projection with two standard parallels.
 * @param {number[]} parallels in degrees
 * @param {number} longitude in radians
 * @param {number} latitude in radians
 * @returns {[number, number]}
 */
function albers(parallels, longitude, latitude) {
  const south = Math.sin(radians(parallels[0]));
  const n = (south + Math.sin(radians(parallels[1]))) / 2;
  const c = 1 + south * (2 * n - south);
  const radius = Math.sqrt(Math.max(0, c - 2 * n * Math.sin(latitude))) / n;
  return [radius * Math.sin(longitude * n), Math.sqrt(c) / n - radius * Math.cos(longitude * n)];
}

/**
 * Where a place is drawn on the map, to a part of a tenth of a unit; null for what is not on it.
 * @param {number} latitude
 * @param {number} longitude
 * @param {number} [parts] ten around a place, as in map/around.rs
 * @returns {[number, number] | null}
 */
export function project(latitude, longitude, parts = 1) {
  if (!(Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180)) return null;
  for (const { meridian, center, parallels, size, shift, frame } of INSETS) {
    let turned = radians(longitude - meridian);
    if (turned > Math.PI) turned -= 2 * Math.PI;
    else if (turned < -Math.PI) turned += 2 * Math.PI;
    const at = albers(parallels, turned, radians(latitude));
    const middle = albers(parallels, radians(center[0]), radians(center[1]));
    const x = shift[0] + size * (at[0] - middle[0]);
    const y = shift[1] - size * (at[1] - middle[1]);
    if (frame[0] <= x && x <= frame[2] && frame[1] <= y && y <= frame[3]) {
      const tenths = (/** @type {number} */ units, /** @type {number} */ most) =>
        Math.min(most, Math.max(0, Math.round(units * 10 * parts) / parts));
      return [tenths(MIDDLE[0] + SCALE * x, WIDTH), tenths(MIDDLE[1] + SCALE * y, HEIGHT)];
    }
  }
  return null;
}

/**
 * "4.5 (1,234)", or nothing.
 * @param {Venue} venue
 * @returns {string}
 */
export function ratingOf(venue) {
  if (typeof venue.rating !== "number") return "";
  const count = typeof venue.review_count === "number" ? ` (${venue.review_count.toLocaleString("en-US")})` : "";
  return venue.rating.toFixed(1) + count;
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
 * A client of the API that asks conditionally: what it has is not sent again.
 * @param {typeof fetch} get
 */
export function client(get) {
  const most = 50;
  /** @type {Map<string, { tag: string, list: List }>} */
  const known = new Map();
  /**
   * @param {string} url
   * @param {AbortSignal} [signal]
   * @returns {Promise<{ list: List, status: number, left: string | null }>}
   */
  return async (url, signal) => {
    const held = known.get(url);
    /** @type {Record<string, string>} */
    const headers = { Accept: "application/json" };
    if (held) headers["If-None-Match"] = held.tag;
    const answer = await get(url, { headers, signal, cache: "no-store" });
    const left = /(?:^|;)\s*r=(\d+)/.exec(answer.headers.get("RateLimit") ?? "")?.[1] ?? null;
    if (answer.status === 304 && held) return { list: held.list, status: 304, left };
    if (answer.status === 429 || answer.status === 503) {
      throw new Refused(Math.max(1, Number(answer.headers.get("Retry-After")) || 5));
    }
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const list = /** @type {List} */ (await answer.json());
    const tag = answer.headers.get("ETag");
    known.delete(url);
    if (tag) known.set(url, { tag, list });
    if (known.size > most) known.delete([...known.keys()][0]);
    return { list, status: answer.status, left };
  };
}

/**
 * The element of an id, of the class that it must have.
 * @template {Element} T
 * @param {string} id
 * @param {new () => T} kind
 * @param {Document} [within]
 * @returns {T}
 */
function element(id, kind, within = document) {
  const found = within.getElementById(id);
  if (!(found instanceof kind) && found?.constructor.name !== kind.name) throw new Error(`#${id} is missing`);
  return /** @type {T} */ (/** @type {unknown} */ (found));
}

/** Takes the page over. */
function start() {
  const form = element("filters", HTMLFormElement);
  const selects = FILTERS.map((name) => element(name, HTMLSelectElement));
  const [sport, state, city] = selects;
  const sort = element("sort", HTMLSelectElement);
  const words = element("q", HTMLInputElement);
  const locate = element("locate", HTMLButtonElement);
  const map = element("map", SVGSVGElement);
  const notice = element("notice", HTMLElement);
  const summary = element("summary", HTMLElement);
  const body = element("venues", HTMLElement);
  const dots = element("dots", SVGPathElement);
  const around = element("around", SVGPathElement);
  const marked = element("marked", SVGPathElement);
  const apiUrl = element("api-url", HTMLElement);
  const explorer = /** @type {HTMLElement} */ (document.querySelector(".explorer"));
  const ask = client((url, options) => fetch(url, options));
  /** @type {AbortController | undefined} */
  let running;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let countdown;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let slow;
  let shown = wishOf(location.search);

  /** @param {Wish} wish */
  const filtersOf = (wish) => queryOf({ ...wish, page: 1 });
  /** The place stays what it was: it has no field that one types into. */
  const wished = () => ({
    ...shown, q: words.value.trim(), sport: sport.value, state: state.value, city: city.value, sort: sort.value, page: 1,
  });

  /**
   * @template {keyof HTMLElementTagNameMap} K
   * @param {K} name
   * @param {string} text
   * @returns {HTMLElementTagNameMap[K]}
   */
  function made(name, text) {
    const node = document.createElement(name);
    // As the server cuts it: not within a character.
    const start = text.slice(0, MOST_IN_A_LIST - 1).replace(/[\uD800-\uDBFF]$/, "");
    node.textContent = text.length > MOST_IN_A_LIST ? `${start}…` : text;
    return node;
  }

  /** @param {string} slug */
  const sportName = (slug) => {
    const option = [...sport.options].find((one) => one.value === slug);
    return option?.dataset.label ?? slug;
  };

  /** @param {Venue | Hit} item */
  function row(item) {
    const { listing: venue, distance_km } = "listing" in item ? item : { listing: item, distance_km: undefined };
    const line = document.createElement("tr");
    if (typeof venue.lat === "number" && typeof venue.lng === "number") {
      line.dataset.lat = String(venue.lat);
      line.dataset.lng = String(venue.lng);
    }
    const name = made("th", "");
    name.scope = "row";
    const link = made("a", venue.name ?? "(no name)");
    link.href = `venues/${venue.id}`;
    name.append(link);
    const rating = made("td", ratingOf(venue));
    rating.className = "number";
    const data = made("td", "");
    const json = made("a", "JSON");
    json.href = `api/listings/${venue.id}.json`;
    json.setAttribute("aria-label", `JSON of ${link.textContent}`);
    data.append(json);
    const away = made("td", distanceOf(distance_km));
    away.className = "number distance";
    line.append(name, made("td", venue.city ?? ""), made("td", venue.state ?? ""), away, made("td", sportName(venue.sport ?? "")), rating, data);
    return line;
  }

  /**
   * @param {string} id
   * @param {Wish | null} wish
   */
  function pagerLink(id, wish) {
    const link = element(id, HTMLAnchorElement);
    if (wish) link.href = `explore${queryOf(wish)}`;
    else link.removeAttribute("href");
  }

  /**
   * @param {Wish} wish
   * @param {List} list
   * @param {Document | null} page in another order than the API's
   */
  function showList(wish, list, page) {
    if (page) body.replaceChildren(...[...element("venues", HTMLElement, page).children].map((line) => document.importNode(line, true)));
    else body.replaceChildren(...list.items.map(row));
    element("empty", HTMLElement).hidden = body.children.length > 0;
    explorer.classList.toggle("near", wish.near !== "");
    const reachable = searches(wish) ? Math.min(list.total, MOST_SHOWN) : list.total;
    const last = Math.max(1, Math.ceil(reachable / PER_PAGE));
    const number = (/** @type {number} */ value) => value.toLocaleString("en-US");
    element("place", HTMLElement).textContent = `Page ${number(wish.page)} of ${number(last)}`;
    element("pager", HTMLElement).hidden = last === 1;
    pagerLink("prev", wish.page > 1 ? { ...wish, page: Math.min(wish.page - 1, last) } : null);
    pagerLink("next", wish.page < last ? { ...wish, page: wish.page + 1 } : null);
    marked.setAttribute("d", "");
  }

  /**
   * Takes over from the page that the server renders what the API does not give: all dots, the circle, the summary, hints,
   * files, the widget, and the cities of a state.
   * @param {Document} page
   */
  function showMap(page) {
    for (const path of [dots, around]) path.setAttribute("d", page.getElementById(path.id)?.getAttribute("d") ?? "");
    const chosen = page.querySelector(".states .chosen")?.getAttribute("data-state") ?? null;
    for (const path of document.querySelectorAll(".states path")) {
      path.classList.toggle("chosen", chosen !== null && path.getAttribute("data-state") === chosen);
    }
    for (const name of ["aria-label", "viewBox"]) map.setAttribute(name, page.getElementById("map")?.getAttribute(name) ?? "");
    for (const id of ["summary", "hint", "off-map", "api-order", "downloads", "widget"]) {
      const parts = [...(page.getElementById(id)?.childNodes ?? [])];
      element(id, HTMLElement).replaceChildren(...parts.map((part) => document.importNode(part, true)));
    }
    for (const select of [...selects, sort]) {
      const options = [...page.getElementById(select.id)?.querySelectorAll("option") ?? []];
      // Choices are laid out at length, and mostly stay.
      if (options.map(choiceOf).join() === [...select.options].map(choiceOf).join()) continue;
      select.replaceChildren(...options.map((option) => document.importNode(option, true)));
    }
  }

  /** @param {HTMLOptionElement} option */
  const choiceOf = (option) => `${option.value} ${option.text}`;

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
      if (left > 0) {
        say(`The limit of requests is reached. Trying again in ${left} s.`);
      } else {
        clearInterval(countdown);
        say("");
        then();
      }
    };
    tick();
    countdown = setInterval(tick, 1000);
  }

  /**
   * Shows what is wished.
   * @param {Wish} wish
   * @param {"push" | "replace" | "keep"} history
   */
  async function show(wish, history) {
    running?.abort();
    clearInterval(countdown);
    say("");
    const mine = new AbortController();
    running = mine;
    const query = queryOf(wish);
    if (history === "push") window.history.pushState(null, "", `explore${query}`);
    if (history === "replace") window.history.replaceState(null, "", `explore${query}`);
    const api = requestOf(wish);
    apiUrl.textContent = `${apiUrl.dataset.base}/${api}`;
    element("api-link", HTMLAnchorElement).href = api;
    explorer.classList.add("busy");
    clearTimeout(slow);
    slow = setTimeout(() => explorer.classList.add("slow"), 200);
    try {
      const isSame = filtersOf(wish) === filtersOf(shown);
      const rendered = isSame && wish.sort === "" ? null : fetch(`explore${query}`, { headers: { Accept: "text/html" }, signal: mine.signal });
      const answer = await ask(api, mine.signal);
      const sent = await rendered;
      if (sent?.status === 429 || sent?.status === 503) throw new Refused(Number(sent.headers.get("Retry-After")) || 5);
      const page = sent && new DOMParser().parseFromString(await sent.text(), "text/html");
      if (running !== mine) return;
      if (page) showMap(page);
      shown = wish;
      FILTERS.forEach((name, at) => { selects[at].value = wish[name]; });
      sort.value = wish.sort;
      locate.setAttribute("aria-pressed", String(wish.near !== ""));
      // What is being typed is newer.
      if (document.activeElement !== words) words.value = wish.q;
      showList(wish, answer.list, wish.sort === "" ? null : page);
      const left = answer.left === null ? "" : ` ${answer.left} requests are left.`;
      element("answered", HTMLElement).textContent =
        (answer.status === 304 ? "Answered 304: nothing had changed, so nothing was sent." : `Answered ${answer.status}.`) + left;
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Refused) wait(error.seconds, () => void show(wish, "keep"));
      else say(`The list cannot be shown: ${error instanceof Error ? error.message : error}.`);
    } finally {
      if (running === mine) {
        clearTimeout(slow);
        explorer.classList.remove("busy", "slow");
      }
    }
  }

  /**
   * Where a line of the list is on the map.
   * @param {Element | null} line
   */
  function placeOf(line) {
    const { lat, lng } = line instanceof HTMLElement ? line.dataset : { lat: undefined, lng: undefined };
    return lat === undefined || lng === undefined ? null : project(Number(lat), Number(lng), shown.near === "" ? 1 : 10);
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
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void show(wished(), "push");
  });
  form.addEventListener("change", (event) => {
    if (event.target === words) return;
    // A city lies in one state: another state has others.
    if (event.target === state) city.value = "";
    void show(wished(), "push");
  });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;
  words.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => void show(wished(), "replace"), 250);
  });
  locate.hidden = !("geolocation" in navigator);
  locate.addEventListener("click", () => {
    if (shown.near !== "") return void show({ ...wished(), near: "", radius: "" }, "push");
    navigator.geolocation.getCurrentPosition(
      // To a hundred metres: the place is sent to the server and shown in the address.
      ({ coords }) => void show({ ...wished(), near: `${coords.latitude.toFixed(3)},${coords.longitude.toFixed(3)}`, radius: "" }, "push"),
      (error) => say(`The browser does not tell the position: ${error.message || "it was refused"}. Allow it in the browser's settings, or choose a city.`),
      { maximumAge: 300_000, timeout: 20_000 },
    );
  });
  for (const id of ["prev", "next"]) {
    element(id, HTMLAnchorElement).addEventListener("click", (event) => {
      const link = /** @type {HTMLAnchorElement} */ (event.currentTarget);
      if (!link.hasAttribute("href") || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      void show(wishOf(new URL(link.href).search), "push");
      document.getElementById("list-title")?.scrollIntoView({ block: "nearest" });
    });
  }
  window.addEventListener("popstate", () => void show(wishOf(location.search), "keep"));
  map.addEventListener("mousemove", (event) => mark(lineUnder(event)));
  map.addEventListener("click", (event) => {
    const line = lineUnder(event);
    if (line) return line.scrollIntoView({ block: "nearest" });
    const slug = event.target instanceof Element ? event.target.getAttribute("data-state") : null;
    if (slug === null) return;
    void show({ ...wished(), state: state.value === slug ? "" : slug, city: "" }, "push");
  });
  for (const name of ["mouseover", "focusin"]) {
    body.addEventListener(name, (event) => mark(event.target instanceof Element ? event.target.closest("tr") : null));
  }
  for (const left of [map, body]) left.addEventListener("mouseleave", () => mark(null));
}

if (typeof document !== "undefined") start();
