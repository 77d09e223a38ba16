// @ts-check
// The map: the venues that the page lists, the points or counts of the others, and the outlines of the states below.
//
// It knows the page only by `#map`, whose data the server writes, and by the elements with `data-at`. Leaflet puts text
// into the page as HTML: it gets nodes instead. Without this script there is no map, and nothing else is missing.

/** The most names that stand at their dots. */
const NAMES = 25;
/** The pause after which points are asked for, in milliseconds. */
const PAUSE = 200;

/** @typedef {{ id: string, at: [number, number], name: string, href: string, row: Element | null }} Venue */

/**
 * A view with some land around it, in steps of a quarter of its size: neighbouring views are the same.
 * @param {[number, number, number, number]} view west, south, east, north
 * @returns {[number, number, number, number]}
 */
export function rounded([west, south, east, north]) {
  const step = 2 ** Math.ceil(Math.log2(Math.max(east - west, north - south, 0.001) / 4));
  const [low, high] = [(/** @type {number} */ edge) => Math.floor(edge / step) * step, (/** @type {number} */ edge) => Math.ceil(edge / step) * step];
  return [Math.max(-180, low(west)), Math.max(-90, low(south)), Math.min(180, high(east)), Math.min(90, high(north))];
}

/**
 * A count in few characters: 950, 1.2k, 34k, 1.1M.
 * @param {number} count
 */
export const brief = (count) => new Intl.NumberFormat("en", { notation: "compact" }).format(count).replace("K", "k");

/**
 * The rings of outlines: the first point, then the steps to the next ones, in hundredths of a degree.
 * @param {[string, number[][]][]} states
 * @returns {[number, number][][]} latitude and longitude in degrees
 */
export function rings(states) {
  return states.flatMap(([, of]) => of.map((steps) => {
    let [x, y] = [0, 0];
    const points = /** @type {[number, number][]} */ ([]);
    for (let at = 0; at < steps.length; at += 2) points.push([(y += steps[at + 1]) / 100, (x += steps[at]) / 100]);
    return points;
  }));
}

/** @param {string | undefined} text numbers with commas between them */
const numbers = (text) => (text ?? "").split(",").map(Number);

/**
 * An element with a text.
 * @param {string} kind
 * @param {string} text
 */
function textual(kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}

/** @param {HTMLElement} box */
function start(box) {
  const L = /** @type {any} */ (globalThis).L;
  if (!L) { box.hidden = true; return; }
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const { tiles, outlines } = box.dataset;
  // One finger scrolls the page, two move the map.
  const dragging = !matchMedia("(pointer: coarse)").matches;
  const map = L.map(box, { dragging, attributionControl: false, zoomSnap: tiles ? 1 : 0.25, minZoom: 2, maxZoom: 18, zoomAnimation: !isCalm, fadeAnimation: !isCalm });
  const [cells, dots, names] = [L.layerGroup().addTo(map), L.featureGroup().addTo(map), L.layerGroup().addTo(map)];
  const around = L.layerGroup().addTo(map);
  const lit = L.circleMarker([0, 0], { radius: 10, className: "lit", interactive: false });
  const notice = document.getElementById("map-notice");
  const isFramed = document.body.classList.contains("widget");
  /** @type {AbortController | undefined} */
  let running;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let pause;
  /** What is drawn, and the view that it is of; an empty view: all of it. */
  let [drawn, seen, isCounted] = [/** @type {Venue[]} */ ([]), /** @type {number[]} */ ([]), false];
  let fitted = "";

  if (tiles) L.tileLayer(tiles, { maxZoom: 19, referrerPolicy: "strict-origin" }).addTo(map);
  else void fetch(outlines ?? "").then((answer) => answer.json()).then((states) =>
    L.polygon(rings(states).map((ring) => [ring]), { className: "state", interactive: false, smoothFactor: 0.7 }).addTo(map).bringToBack())
    // A map without outlines is one, too.
    .catch(() => undefined);

  /** The venues that the page lists. */
  const listed = () => [...document.querySelectorAll("[data-at]")].flatMap((row) => {
    const link = row.querySelector("a");
    const [lat, lng] = numbers(/** @type {HTMLElement} */ (row).dataset.at);
    const venue = link && { id: link.href.split("/").at(-1) ?? "", at: /** @type {[number, number]} */ ([lat, lng]), name: link.textContent ?? "", href: link.href, row };
    return venue ? [venue] : [];
  });

  /** @param {Venue | undefined} venue */
  function light(venue) {
    for (const row of document.querySelectorAll(".lit:not(path)")) row.classList.remove("lit");
    venue?.row?.classList.add("lit");
    if (venue) lit.setLatLng(venue.at).addTo(map).bringToBack();
    else lit.remove();
  }

  /** @param {Venue} venue */
  function popup(venue) {
    const link = /** @type {HTMLAnchorElement} */ (textual("a", venue.name));
    link.href = venue.href;
    if (isFramed) [link.target, link.rel] = ["_blank", "noopener"];
    return link;
  }

  /** Names at their dots, as far as they do not cover each other. */
  function label() {
    names.clearLayers();
    const free = /** @type {number[][]} */ ([]);
    const view = map.getBounds();
    const inView = drawn.filter(({ at }) => view.contains(at));
    if (inView.length > NAMES * 3) return;
    const { here, name: ours } = box.dataset;
    const own = here ? [{ at: /** @type {[number, number]} */ (numbers(here)), name: ours ?? "" }] : [];
    const at = [...own, ...inView].map((venue) => ({ ...map.latLngToContainerPoint(venue.at), venue }));
    for (const { x, y, venue: { at: place, name } } of at) {
      const [left, top, right, bottom] = [x, y - 11, x + 14 + Math.min(name.length, 24) * 7, y + 11];
      const isFree = !free.some((one) => left < one[2] && one[0] < right && top < one[3] && one[1] < bottom)
        && !at.some((dot) => left + 8 < dot.x && dot.x < right && top < dot.y && dot.y < bottom);
      if (free.length >= NAMES || right > map.getSize().x || !isFree) continue;
      free.push([left, top, right, bottom]);
      L.tooltip({ permanent: true, direction: "right", offset: [5, 0], className: "name" }).setLatLng(place).setContent(textual("span", name)).addTo(names);
    }
  }

  /**
   * Leaflet listens for the focus of a dot, and so would a browser lead the Tab key to each of them. The list has them all.
   * @param {any} dot
   */
  const outOfTabOrder = (dot) => dot.getElement()?.setAttribute("tabindex", "-1");

  /** @param {Venue[]} venues */
  function draw(venues) {
    [drawn, isCounted] = [venues, false];
    for (const layer of [cells, dots]) layer.clearLayers();
    for (const venue of venues) {
      outOfTabOrder(L.circleMarker(venue.at, { radius: 6, className: "dot" })
        .bindTooltip(() => textual("span", venue.name), { className: "name", direction: "top" })
        .bindPopup(() => popup(venue))
        .on({ mouseover: () => light(venue), mouseout: () => light(undefined) })
        .addTo(dots));
    }
    label();
  }

  /** @param {[number, number, number][]} counted latitude, longitude, number of venues */
  function count(counted) {
    draw([]);
    isCounted = true;
    for (const [lat, lng, number] of counted) {
      const html = textual("span", brief(number));
      const size = 22 + 7 * String(number).length;
      L.marker([lat, lng], { icon: L.divIcon({ html, className: "cell", iconSize: [size, size] }), keyboard: false })
        .on("click", () => map.setView([lat, lng], map.getZoom() + 2))
        .addTo(cells);
    }
  }

  /** The view, with some land around it. */
  function view() {
    const bounds = map.getBounds();
    return rounded([bounds.getWest(), bounds.getSouth(), bounds.getEast(), bounds.getNorth()]);
  }

  /**
   * Asks for the points of a view.
   * @param {number[]} asked
   */
  async function load(asked) {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    try {
      const answer = await fetch(`${box.dataset.points}${asked.map((edge) => +edge.toFixed(5)).join()}`, { signal: mine.signal });
      if (!answer.ok) throw new Error(answer.status === 429 ? "the limit of requests is reached" : `the server answered ${answer.status}`);
      const { points, cells: counted, whole } = await answer.json();
      if (running !== mine) return;
      seen = whole ? [] : asked;
      const rows = new Map(listed().map((venue) => [venue.id, venue]));
      if (counted) count(counted);
      else draw(points.map((/** @type {[string, number, number, string]} */ [id, lat, lng, name]) =>
        rows.get(id) ?? { id, at: [lat, lng], name: name || "(no name)", href: new URL(`venues/${encodeURIComponent(id)}`, document.baseURI).href, row: null }));
      say("");
    } catch (error) {
      if (!mine.signal.aborted) say(`The map shows only a part: ${error instanceof Error ? error.message : error}.`);
    }
  }

  /** @param {string} text */
  function say(text) {
    if (!notice) return;
    [notice.textContent, notice.hidden] = [text, text === ""];
  }

  /** Shows what the page says now. */
  function show() {
    running?.abort();
    say("");
    const { near, extent, here, points, name } = box.dataset;
    const [lat, lng, radius] = numbers(near ?? here);
    around.clearLayers();
    if (near) L.circle([lat, lng], { radius, className: "around", interactive: false }).addTo(around);
    if (here) outOfTabOrder(L.circleMarker([lat, lng], { radius: 9, className: "here" }).bindTooltip(() => textual("span", name ?? ""), { className: "name", direction: "top" }).addTo(around));
    const to = near ?? here ?? extent ?? "";
    if (to !== fitted) {
      const [west, south, east, north] = numbers(extent);
      const whole = near || here ? L.latLng(lat, lng).toBounds(near ? Math.min(2 * radius, 4e6) : 6000) : [[south, west], [north, east]];
      map.fitBounds(whole, { padding: [16, 16], maxZoom: 14, animate: fitted !== "" && !isCalm });
      fitted = to;
    }
    draw(listed());
    seen = [];
    if (points) void load(view());
  }

  map.on("moveend", () => {
    clearTimeout(pause);
    pause = setTimeout(() => {
      const [west, south, east, north] = seen;
      const isSeen = seen.length === 0 || L.latLngBounds([south, west], [north, east]).contains(map.getBounds());
      if (isSeen && !isCounted) return label();
      const asked = view();
      if (String(asked) !== String(seen)) void load(asked);
    }, PAUSE);
  });
  for (const name of ["mouseover", "focusin", "mouseout", "focusout"]) {
    document.addEventListener(name, ({ target }) => {
      const row = target instanceof Element && !box.contains(target) ? target.closest("[data-at]") : null;
      if (row) light(name.endsWith("out") ? undefined : listed().find((venue) => venue.row === row));
    });
  }
  document.addEventListener("listed", show);
  show();
}

const box = typeof document === "undefined" ? null : document.getElementById("map");
if (box) start(box);
