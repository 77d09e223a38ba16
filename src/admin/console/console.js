// @ts-check
/*
 * The operator's console: draws /status and /history.json, and sends the requests of its buttons.
 *
 * It asks every few seconds while the tab is visible, and changes only what differs, so that focus, selection and open
 * parts stay. All texts become text nodes. The token is kept for this tab only.
 */

import {
  PURPOSES, count, counted, flat, inMinute, seconds, short, stateOf, sum, tiles, unit, utc, valued,
} from "./words.js";

/** @typedef {import("./words.js").Facts} Facts */
/** @typedef {Node | string | number | null | undefined | false} Piece */

/** Milliseconds between two looks, and until one is given up. */
const EVERY = 3000;
const PATIENCE = 10000;
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

/** @param {unknown} error */
const why = (error) => (error instanceof Error ? error.message : String(error));
const time = () => new Date().toLocaleTimeString([], { hour12: false });

// --- Drawing

/**
 * An element: `kind` is a tag with classes, such as `p.note`.
 * @param {string} kind
 * @param {Record<string, string | number | boolean | null | undefined>} attributes
 * @param {(Piece | Piece[])[]} pieces
 */
function h(kind, attributes = {}, ...pieces) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElement(tag);
  if (classes.length > 0) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined && value !== "") element.setAttribute(name, value === true ? "" : String(value));
  }
  const shown = pieces.flat().filter((piece) => piece !== null && piece !== undefined && piece !== false && piece !== "");
  element.append(.../** @type {(Node | string)[]} */ (shown.map((piece) => (piece instanceof Node ? piece : String(piece)))));
  return element;
}

/**
 * Makes `old` like `fresh`, and touches only what differs. Elements with ids keep their identity when they move.
 * @param {Node} old
 * @param {Node} fresh
 */
function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (!(old instanceof Element && fresh instanceof Element)) {
    old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  fill(old, [...fresh.childNodes]);
}

/**
 * Gives an element these children.
 * @param {Element} parent
 * @param {Node[]} wanted
 */
function fill(parent, wanted) {
  const idOf = (/** @type {Node | undefined} */ node) => (node instanceof Element ? node.id : "");
  wanted.forEach((fresh, at) => {
    const known = idOf(fresh) ? [...parent.childNodes].find((node) => idOf(node) === idOf(fresh)) : parent.childNodes[at];
    if (known && known.nodeName === fresh.nodeName && idOf(known) === idOf(fresh)) {
      if (known !== parent.childNodes[at]) parent.insertBefore(known, parent.childNodes[at]);
      morph(known, fresh);
    } else {
      parent.insertBefore(fresh, parent.childNodes[at] ?? null);
    }
  });
  while (parent.childNodes.length > wanted.length) parent.lastChild?.remove();
}

// --- What can be done

/** @typedef {{ path: string, label: string, done: string, method?: string, ask?: string, about?: string }} Action */

/** Without `ask`, an action is harmless and acts at once. @type {Record<string, (id: string) => Action>} */
const ACTIONS = {
  refresh: () => ({ path: "refresh", label: "Refresh now", done: "A refresh begins. Its result shows here." }),
  sync: () => ({ path: "sync", label: "Check every page", done: "The check begins. Its progress shows here.", ask: "The mirror checks every page of the origin with conditional requests. This costs one request of the budget for each 100 listings." }),
  audit: () => ({ path: "audit?samples=20", label: "Compare 20 requests", done: "The comparison begins. Its progress shows here.", ask: "20 requests are also sent to the origin, and the answers are compared. This uses the background share of the budget." }),
  accept: () => ({ path: "snapshots/accept", label: "Accept the snapshot", done: "The next refresh publishes the snapshot.", ask: "The snapshot that is held back becomes current, with fewer listings than now. Do this only if the origin really lost the others." }),
  purge: () => ({ path: "cache", method: "DELETE", label: "Purge the cache", done: "The cache is empty.", ask: "All cached answers are dropped. They are rendered or fetched again when a client asks for them." }),
  release: () => ({ path: "snapshots/release", label: "Release", done: "The newest snapshot is current again.", ask: "The newest snapshot becomes current again, and later ones follow it." }),
  rollback: (id) => ({ path: `snapshots/${id}/rollback`, label: "Roll back", done: `Snapshot ${short(id)} is current now. Release it to get the newest one again.`, ask: `Clients get snapshot ${short(id)} until you release it. Refreshes continue; newer snapshots wait.` }),
  pin: (id) => ({ path: `snapshots/${id}/pin`, label: "Pin", done: `Snapshot ${short(id)} is pinned: it is kept until you unpin it.` }),
  unpin: (id) => ({ path: `snapshots/${id}/unpin`, label: "Unpin", done: `Snapshot ${short(id)} is not pinned now.`, ask: `Normal retention applies to snapshot ${short(id)} again; it may be removed soon.` }),
  verify: (id) => ({ path: `snapshots/${id}/verify`, label: "Verify", done: `Snapshot ${short(id)} is intact: every hash is right.` }),
};

/** What the server says: whether it takes actions. */
let writes = "free";
let token = sessionStorage.getItem(TOKEN) ?? "";

/**
 * @param {string} action
 * @param {string} [snapshot] its id
 * @param {string} [place] tells two buttons for one action apart
 */
const button = (action, snapshot = "", place = "") =>
  h("button", { type: "button", id: `do-${action}${snapshot && `-${snapshot}`}${place}`, "data-action": action, "data-id": snapshot, disabled: writes === "refused" },
    ACTIONS[action](snapshot).label, snapshot && h("span.unseen", {}, ` snapshot ${short(snapshot)}`));

const outcome = need("outcome", HTMLElement);
/** @param {string} text */
const say = (text) => { outcome.textContent = text; };
outcome.addEventListener("click", () => say(""));

/**
 * Asks whether to do it, and for the token where it is needed and not known; at once where there is nothing to ask.
 * @param {string} title
 * @param {string} [text]
 * @returns {Promise<boolean>}
 */
function confirmed(title, text) {
  const field = writes === "token" && !token ? need("token", HTMLInputElement) : null;
  say("");
  if (!text && !field) return Promise.resolve(true);
  const dialog = need("ask", HTMLDialogElement);
  need("ask-title", HTMLElement).textContent = title;
  need("ask-text", HTMLElement).textContent = text ?? "";
  need("ask-token", HTMLElement).hidden = !field;
  need("token", HTMLInputElement).required = Boolean(field);
  dialog.returnValue = "no";
  dialog.showModal();
  (field ?? need("ask-no", HTMLElement)).focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const yes = dialog.returnValue === "yes";
      if (field && yes) sessionStorage.setItem(TOKEN, (token = field.value));
      if (field) field.value = "";
      resolve(yes);
    }, { once: true });
  });
}

need("ask-no", HTMLButtonElement).addEventListener("click", () => need("ask", HTMLDialogElement).close("no"));

/** @returns {Record<string, string>} */
const credentials = () => (writes === "token" ? { Authorization: `Bearer ${token}` } : {});

/**
 * What came of a command, in words.
 * @param {number} status
 * @param {string} text the body of the answer
 * @param {string} done what to say if it was done
 */
function told(status, text, done) {
  /** @type {Facts} */
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
async function act(pressed) {
  const { path, method = "POST", label, ask, done } = ACTIONS[pressed.dataset.action ?? ""](pressed.dataset.id ?? "");
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

/**
 * Fetches a bundle with the token, which a link cannot send, and saves it.
 * @param {HTMLAnchorElement} link
 */
async function download(link) {
  if (!(await confirmed(link.textContent ?? "", "The bundle is written now. It is the size of all data; the browser holds it until it is saved."))) return;
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
  const pressed = target?.closest("button");
  const link = target?.closest("a.download");
  if (pressed?.dataset.action) act(pressed);
  if (pressed?.dataset.span) show(pressed.dataset.span);
  if (link instanceof HTMLAnchorElement && writes === "token") {
    event.preventDefault();
    download(link);
  }
});

need("upload", HTMLFormElement).addEventListener("submit", async (event) => {
  event.preventDefault();
  const bundle = need("file", HTMLInputElement).files?.[0];
  const signature = need("signature", HTMLInputElement).files?.[0];
  const effect = "The bundle is checked as a whole. Then clients get the bundle's data, unless a rollback is in effect.";
  if (!bundle || !(await confirmed(`Import ${bundle.name}`, effect))) return;
  const request = new XMLHttpRequest();
  request.open("POST", need("older", HTMLInputElement).checked ? "bundle?allow_older=true" : "bundle");
  for (const [name, value] of Object.entries(credentials())) request.setRequestHeader(name, value);
  if (signature) request.setRequestHeader("Bundle-Signature", encodeURIComponent(await signature.text()));
  const sent = need("sent", HTMLProgressElement);
  request.upload.addEventListener("progress", ({ loaded, total }) => { sent.value = loaded / Math.max(total, 1); });
  request.addEventListener("load", () => say(told(request.status, request.responseText, "The bundle is imported.")));
  request.addEventListener("error", () => say("Not imported: the connection broke off. The list of warnings may say why."));
  request.addEventListener("loadend", () => { sent.hidden = true; look(); });
  [sent.value, sent.hidden] = [0, false];
  say(`${bundle.name} is being sent …`);
  request.send(bundle);
});

// --- Charts

/** @typedef {(number | null)[]} Column */
/** @typedef {{ name: string, hue: string, values: Column }} Series  `hue` is a variable of the stylesheet; that of a limit is `soft` */
/** @typedef {{ id: string, title: string, kind: string, series: Series[] }} Chart */

/** @param {string} name @param {string} hue @param {Column} values @returns {Series} */
const line = (name, hue, values) => ({ name, hue, values });
/** @param {string} id @param {string} title @param {string} kind @param {any[]} series those that are there count @returns {Chart} */
const chart = (id, title, kind, ...series) => ({ id, title, kind, series: series.filter(Boolean) });

/**
 * The charts that make sense for a use of the server.
 * @param {Facts} history
 * @param {Facts} status
 * @returns {Chart[]}
 */
function charts(history, status) {
  const { answers, step_seconds: step } = history;
  const limit = status.origin.budget?.limit;
  const oldest = status.unhealthy_after_seconds;
  const all = sum(Object.values(answers));
  const rate = (/** @type {string} */ group) => answers[group].map((/** @type {number | null} */ value) => value === null ? null : value / step);
  const share = (/** @type {Column} */ column) => column.map((value, at) => (value === null || !all[at] ? null : value / all[at]));
  const level = (/** @type {number} */ value) => all.map(() => value);
  const purposes = Object.entries(PURPOSES).map(([purpose, name], at) => line(name, ["hue1", "hue3", "hue2", "hue4", "hue6"][at],
    limit ? history.origin_budget[purpose] : inMinute(history.origin_requests[purpose], step)));
  const drawn = [
    chart("requests", "Requests by outcome", "perSecond", line("hit", "hue1", rate("fresh")), line("stale", "hue2", rate("stale")),
      line("origin", "hue3", rate("origin")), line("429", "hue4", rate("refused")), line("error", "hue5", rate("error")), line("page", "hue6", rate("other"))),
    chart("latency", "Time to answer", "micros", line("p50", "hue1", history.p50_microseconds), line("p99", "hue3", history.p99_microseconds)),
    chart("shares", "Share of all answers", "share", line("hit or stale", "hue1", share(sum([answers.fresh, answers.stale]))), line("304", "hue3", share(history.not_modified))),
    chart("refused", "Refused by the rate limit (429)", "perMinute", line("429", "hue4", inMinute(answers.refused, step))),
    status.origin.budget && chart("spent", "Origin requests in a minute", "count", ...purposes, limit && line("budget", "soft", level(limit))),
    status.use !== "shield" && chart("age", "Age of the data", "seconds", line("age", "hue1", history.age_seconds), oldest && line("unhealthy above", "soft", level(oldest))),
    chart("memory", "Memory", "bytes", line("resident", "hue1", history.memory_bytes)),
    status.use === "mirror" && chart("copy", "Progress and parity", "share", line("details", "hue1", history.details), line("pages of a pass", "hue3", history.pages), line("equal to the origin", "hue4", history.parity)),
  ];
  return drawn.filter(Boolean);
}

/** The library's charts by id. @type {Map<string, any>} */
const plots = new Map();
/** What is charted, and the samples of it. */
let span = "minutes";
/** @type {Facts | null} */
let history = null;

/** @param {number} at seconds since 1970 */
const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false, timeStyle: "short" });

/** Shows the values at the pointer below a chart, else the newest. @param {any} plot */
function legend(plot) {
  const { id, kind, series } = /** @type {Chart} */ (plot.chart);
  const at = plot.cursor.idx ?? plot.data[0].length - 1;
  const values = series.map(({ name, hue, values }) => h("span", {}, h(`span.key.${hue}`, { "aria-hidden": "true" }), `${name} `,
    h("b", {}, values[at] === null ? "–" : valued(kind, values[at]))));
  const when = plot.cursor.idx === null ? "now" : new Date(plot.data[0][at] * 1000).toLocaleTimeString([], { hour12: false });
  fill(need(`legend-${id}`, HTMLElement), [h("span", {}, when), ...values]);
}

/** Ticks that are round in seconds, minutes, hours and days. */
const TIMES = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000, 8640000];

/** @param {Chart} chart @param {Element} into */
function options({ kind, series }, into) {
  const style = getComputedStyle(document.documentElement);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: colour("soft"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const labels = (/** @type {any} */ _, /** @type {number[]} */ splits) => {
    const { name, size } = unit(kind, Math.max(...splits));
    return splits.map((value) => `${(value / size).toLocaleString("en", { maximumFractionDigits: 3 })} ${name}`.trim());
  };
  const least = { share: 1, micros: 100, bytes: 1e6, perSecond: 1 }[kind] ?? 10;
  return {
    width: into.clientWidth, height: into.clientHeight, legend: { show: false }, padding: [10, 20, 0, 0],
    cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => [0, kind === "share" ? 1 : Math.max(high * 1.1, least)] } },
    axes: [
      { ...axis, size: 24, space: 60, values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map(clock) },
      { ...axis, space: 28, values: labels, size: (/** @type {any} */ _, /** @type {string[] | null} */ texts) => 14 + 7 * Math.max(3, ...(texts ?? []).map((text) => text.length)),
        ...(kind === "seconds" ? { incrs: TIMES } : {}) },
    ],
    series: [{}, ...series.map(({ hue }) => ({ stroke: colour(hue), ...(hue === "soft" ? { width: 1, dash: [6, 4], points: { show: false } } : { width: 2, points: { size: 4 } }) }))],
    hooks: { setCursor: [(/** @type {any} */ plot) => plot.chart && legend(plot)] },
  };
}

/** @param {Facts} history @param {Facts} status */
function draw(history, status) {
  const shown = charts(history, status);
  const times = history.age_seconds.map((/** @type {any} */ _, /** @type {number} */ at) => Date.parse(history.until) / 1000 - (history.age_seconds.length - 1 - at) * history.step_seconds);
  // A server that has just started fills the charts all the same.
  const first = Math.min(history.answers.fresh.findIndex((/** @type {number | null} */ value) => value !== null) >>> 0, times.length - 18);
  for (const one of shown) {
    if (!document.getElementById(`plot-${one.id}`)) {
      need("plots", HTMLElement).append(h("figure", { "aria-labelledby": `title-${one.id}` }, h("figcaption", { id: `title-${one.id}` }, one.title),
        h("div.plot", { id: `plot-${one.id}`, tabindex: 0, role: "group", "aria-label": "Chart: the arrow keys move through the samples", "aria-describedby": `legend-${one.id}` }),
        h("p.legend", { id: `legend-${one.id}` })));
    }
    const data = [times, ...one.series.map(({ values }) => values)].map((column) => column.slice(first));
    const into = need(`plot-${one.id}`, HTMLElement);
    const known = plots.get(one.id);
    const isKnown = known?.series.length === data.length;
    if (known && !isKnown) known.destroy();
    const plot = isKnown ? known : new /** @type {any} */ (globalThis).uPlot(options(one, into), data, into);
    plot.chart = { ...one, series: one.series.map((series) => ({ ...series, values: series.values.slice(first) })) };
    if (isKnown) plot.setData(data);
    plots.set(one.id, plot);
    legend(plot);
  }
}

need("plots", HTMLElement).addEventListener("keydown", (event) => {
  const plot = event.target instanceof HTMLElement ? plots.get(event.target.id.replace("plot-", "")) : null;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!plot || !step) return;
  event.preventDefault();
  const times = plot.data[0];
  const at = Math.min(times.length - 1, Math.max(0, (plot.cursor.idx ?? times.length) + step));
  plot.setCursor({ left: plot.valToPos(times[at], "x"), top: 0 });
});

new ResizeObserver(() => {
  for (const { root, height, setSize } of plots.values()) setSize({ width: root.parentElement.clientWidth, height });
}).observe(need("plots", HTMLElement));

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const plot of plots.values()) plot.destroy();
  plots.clear();
  look();
});

/** @param {string} wanted a span */
function show(wanted) {
  [span, history] = [wanted, null];
  for (const one of document.querySelectorAll("[data-span]")) one.setAttribute("aria-pressed", String(one.getAttribute("data-span") === wanted));
  look();
}

// --- The parts of the page

/** A text with its parts between backticks as code. @param {string} text */
const rich = (text) => text.split("`").map((piece, at) => (at % 2 === 1 ? h("code", {}, piece) : piece));

/** An instant as a time ago, with itself as title. @param {string | null | undefined} at @param {number} now */
const when = (at, now) => at ? h("time", { datetime: at, title: utc(at) }, `${seconds((now - Date.parse(at)) / 1000)} ago`) : "–";

/** @param {string} id @param {string} title @param {Piece[]} pieces */
const section = (id, title, ...pieces) => h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), pieces);

/**
 * @param {string} caption
 * @param {string[]} heads one that begins with # is a column of numbers
 * @param {(Piece | Piece[])[][]} rows the first cell names the row
 * @param {string[]} [ids] of the rows
 */
function table(caption, heads, rows, ids = []) {
  const kind = (/** @type {number} */ at) => (heads[at].startsWith("#") ? ".number" : "");
  const row = (/** @type {(Piece | Piece[])[]} */ cells, /** @type {number} */ nth) =>
    h("tr", { id: ids[nth] }, cells.map((cell, at) => at === 0 ? h("th", { scope: "row" }, cell) : h(`td${kind(at)}`, {}, cell)));
  return h("div.wide", { tabindex: 0, role: "region", "aria-label": caption }, h("table", {}, h("caption.unseen", {}, caption),
    h("thead", {}, h("tr", {}, heads.map((head, at) => h(`th${kind(at)}`, { scope: "col" }, head.replace("#", ""))))),
    h("tbody", {}, rows.map(row))));
}

/** Kept snapshots that are shown; beyond that only important ones. */
const MOST_SNAPSHOTS = 40;

/** @param {Facts} status @param {Facts} kept @param {number} now */
function snapshots({ held, rollback }, kept, now) {
  const shown = kept.snapshots.filter((/** @type {Facts} */ one, /** @type {number} */ at) => at < MOST_SNAPSHOTS || one.served || one.newest);
  const marks = { served: "current", newest: "newest", pinned: "pinned", exported: "exported", unconfirmed: "date in the future" };
  const rows = shown.map((/** @type {Facts} */ one) => [
    [h("code", { title: one.id }, short(one.id)), Object.entries(marks).filter(([key]) => one[key]).map(([, mark]) => h("span.tag", {}, mark))].flat(),
    count(one.listings), one.certificate, when(one.confirmed_at, now), when(one.published_at, now),
    [!one.served && button("rollback", one.id), button(one.pinned ? "unpin" : "pin", one.id), button("verify", one.id),
      !one.served && writes !== "refused" && h("a.download", { id: `delta-${one.id}`, href: `bundle?since=${one.id}`, download: true }, "Delta", h("span.unseen", {}, ` bundle since snapshot ${short(one.id)}`))],
  ]);
  const more = kept.snapshots.length - shown.length;
  return section("snapshots", "Snapshots",
    held && h("div.held", {}, h("h3", {}, "Held back"), h("p", {}, `Snapshot ${short(held.snapshot)} with ${counted(held.listings, "listing")} instead of ${count(held.serving)} waits: ${held.reason}`), button("accept")),
    rollback && h("p", {}, "A rollback is in effect. ", button("release")),
    rows.length === 0 ? h("p", {}, "None is kept yet.") :
      table("Kept snapshots, the newest first", ["Snapshot", "#Listings", "Certificate", "Confirmed", "Published", "Actions"], rows, shown.map((/** @type {Facts} */ one) => `kept-${one.id}`)),
    more > 0 && h("p", {}, `${count(more)} more are kept; `, h("code", {}, "grandstand snapshot list"), " shows them."));
}

/** The object store that is followed, or written to. @param {Facts} store @param {string} title @param {number} now */
function fleet(store, title, now) {
  const behind = store.behind_seconds;
  const lines = { Address: store.url, Head: store.sequence ?? "none yet", "Last answer": when(store.last_poll ?? store.last_success, now),
    State: behind === null ? "not compared yet" : behind > 0 ? `behind for ${seconds(behind)}` : "nothing is missing", Problem: store.why };
  return section("store", title, h("dl.lines", {}, Object.entries(lines).filter(([, text]) => text).map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text)))));
}

/** @param {Facts[]} recent @param {number} now */
const notes = (recent, now) => section("notes", "Recent warnings and errors", recent.length === 0 ? h("p", {}, "None since the start.") :
  h("ol.notes", {}, recent.map((note) => h("li", {},
    h("p.when", {}, h(`span.tag${note.level === "error" ? ".bad" : ""}`, {}, note.level), when(note.at, now), note.count > 1 && ` · ${count(note.count)} times`),
    h("p", {}, rich(note.text)), h("p.soft", {}, rich(note.todo))))));

/** What an operator can ask for, and what came of the last audit. @param {Facts} status @param {Facts | null} job */
function requests({ use, parity }, job) {
  const running = job && job.id > 0 && !job.summary && `Running audit: ${job.phase}, ${count(job.done)} of ${count(job.of)}.`;
  const found = (job?.report.differing ?? []).flatMap((/** @type {Facts} */ one) => one.differences.map((/** @type {string} */ text) => `${one.request}: ${text}`));
  const differences = [...new Set([...(parity?.differences ?? []), ...found])].slice(0, 20);
  return section("requests-to-it", "Actions", h("p.buttons", {},
    use === "mirror" && [button("refresh"), button("sync"), button("audit")], use === "replica" && button("refresh"), button("purge")),
  use === "mirror" && h("p", {}, parity ? `${parity.percent.toFixed(2)} % of the last ${counted(parity.compared, "compared request")} equal the origin's answers.` : "Nothing was compared with the origin yet."),
  running ? h("p", {}, running) : job && job.id > 0 && h("p", {}, `Last audit: ${job.summary}`),
  differences.length > 0 && h("ul.texts", {}, differences.map((text) => h("li", {}, text))));
}

/** Every fact by its name, in the groups of /status. @param {Facts} status */
function everything(status) {
  const { advice, recent, ...rest } = status;
  const isGroup = (/** @type {any} */ value) => value !== null && typeof value === "object" && !Array.isArray(value);
  const plain = Object.entries(rest).filter(([, value]) => !isGroup(value));
  const nested = Object.entries(rest).filter(([, value]) => isGroup(value));
  const group = (/** @type {string} */ name, /** @type {Facts} */ facts) => h("details", { id: `facts-${name}` }, h("summary", {}, name),
    table(`Facts of ${name}`, ["Field", "Value"], flat(facts).map(([field, value]) => [h("code", {}, field), value])));
  return section("facts", "Every fact of /status", group("server", Object.fromEntries(plain)), ...nested.map(([name, value]) => group(name, value)));
}

/** @param {Facts} status @param {Facts | null} kept @param {Facts | null} job @param {number} now */
const parts = (status, kept, job, now) => [
  kept && snapshots(status, kept, now),
  status.replica && fleet(status.replica, "Object store followed", now),
  status.publish && fleet(status.publish, "Object store", now),
  notes(status.recent, now),
  requests(status, job),
  everything(status),
].filter((part) => part !== null);

/** @param {Facts} status @param {Facts | null} kept @param {Facts | null} job @param {number} now milliseconds, by the server's clock */
function render(status, kept, job, now) {
  writes = status.admin?.writes ?? "free";
  const state = stateOf(status);
  const title = `${state.word} – grandstand`;
  const uses = /** @type {Record<string, string>} */ ({ offline: "offline server" });
  need("use", HTMLElement).textContent = uses[status.use] ?? status.use;
  fill(need("about", HTMLElement), [...h("p", {}, `${status.version ?? ""} · up `, h("span", { title: status.started_at && utc(status.started_at) }, seconds(status.uptime_seconds ?? 0)), ` · ${[...status.listen, ...(status.tls?.listen ?? [])].join(", ")}`).childNodes]);
  need("clock", HTMLElement).textContent = `Updated ${time()}`;
  need("refused", HTMLElement).hidden = writes !== "refused";
  need("bundles", HTMLElement).hidden = status.use === "shield";
  for (const field of document.querySelectorAll("fieldset")) field.disabled = writes === "refused";
  need("bundle", HTMLElement).hidden = writes === "refused";
  const findings = status.advice.map((/** @type {Facts} */ one) => h(`li.${one.unhealthy ? "unwell" : "attention"}`, {}, h("p", {}, h("b", {}, rich(one.what))), h("p", {}, rich(one.todo)), one.action && button(one.action, "", "-top")));
  morph(need("health", HTMLElement), h(`section.health.${state.kind}`, { id: "health", "aria-label": "State" }, h("h1", {}, h("span.sign", { "aria-hidden": "true" }), state.word), findings.length > 0 ? h("ul.findings", {}, findings) : h("p", {}, state.text)));
  fill(need("tiles", HTMLElement), [h("dl.tiles", {}, tiles(status, minutes, now).map((tile) => h(`div${tile.wrong ? ".wrong" : ""}`, { title: tile.title }, h("dt", {}, tile.name),
    h("dd", {}, h("b", {}, tile.value), tile.share !== undefined && h("progress", { max: 1, value: tile.share, "aria-label": tile.name }), h("span", {}, tile.note), tile.more && h("span", {}, tile.more)))))]);
  fill(need("more", HTMLElement), parts(status, kept, job, now));
  if (document.title !== title) {
    document.title = title;
    need("spoken", HTMLElement).textContent = need("health", HTMLElement).textContent;
  }
}

// --- Looking

/** The samples of the last minutes, for the tiles. @type {Facts | null} */
let minutes = null;
let timer = 0;
let isLooking = false;
let answered = "";

/** @param {string} path @returns {Promise<[Facts, number]>} what is there, and the server's clock in milliseconds */
async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE) });
  if (!answer.ok && !(path === "status" && answer.status === 503)) throw new Error(`it answers ${answer.status}`);
  return [await answer.json(), Date.parse(answer.headers.get("date") ?? "") || Date.now()];
}

/** The samples of a span, asked for only if there may be a new one. @param {Facts | null} known @param {string} wanted @param {number} now */
async function samples(known, wanted, now) {
  const isFresh = known?.span === wanted && now < Date.parse(known.until) + known.step_seconds * 1000 + 500;
  return isFresh ? known : (await get(`history.json?span=${wanted}`))[0];
}

async function ask() {
  const [status, now] = await get("status");
  const [[kept], [job]] = await Promise.all([
    status.use === "shield" ? [null] : get("snapshots"),
    status.use === "mirror" ? get("audit") : [null],
  ]);
  minutes = await samples(minutes, "minutes", now);
  history = span === "minutes" ? minutes : await samples(history, span, now);
  return { status, kept, job, now };
}

async function look() {
  clearTimeout(timer);
  if (document.hidden || isLooking) return;
  isLooking = true;
  const lost = need("lost", HTMLElement);
  const found = await ask().catch((error) => {
    lost.textContent = `No answer since ${answered || time()} (${why(error)}). What you see is from then. The console keeps asking.`;
    return null;
  });
  isLooking = false;
  timer = setTimeout(look, EVERY);
  lost.hidden = found !== null;
  if (!found || !history) return;
  answered = time();
  render(found.status, found.kept, found.job, found.now);
  draw(history, found.status);
}

document.addEventListener("visibilitychange", look);
look();
