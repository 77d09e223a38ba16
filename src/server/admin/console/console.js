// @ts-check
// The operator's console: asks for /status and /history.json every few seconds while the tab is visible, and shows them.

import { allow, button, delta, listen, why } from "./actions.js";
import { draw, follow } from "./charts.js";
import { fill, h, morph, need } from "./dom.js";
import { count, counted, flat, glued, seconds, short, stateOf, tiles, utc } from "./words.js";

/** @typedef {import("./dom.js").Pieces} Pieces */
/** @typedef {import("./words.js").Facts} Facts */
/** @typedef {import("./words.js").History} History */
/** @typedef {import("./words.js").Kept} Kept */

/** Milliseconds between two looks, and until one is given up. */
const EVERY = 3000;
const PATIENCE = 10000;
/** Kept snapshots that are shown; beyond that only important ones. */
const MOST_SNAPSHOTS = 40;

const time = () => new Date().toLocaleTimeString([], { hour12: false });

/** A text with its parts between backticks as code. @param {string} text */
const rich = (text) => text.split("`").map((piece, at) => (at % 2 === 1 ? h("code", {}, piece) : piece));

/** What helps with one click. @type {Record<string, string>} */
const REMEDIES = { "held-back": "accept", "rolled-back": "release", "waits-for-copies": "refresh" };

/** With a capital, unless it begins with the name of a file or a key. @param {string} text */
const sentence = (text) => (/^[a-z]+[ ,:]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text) + (/[.!?…]$/.test(text) ? "" : ".");

/** An instant as a time ago, with itself as title. @param {string | null | undefined} at @param {number} now */
const when = (at, now) => at ? h("time", { datetime: at, title: utc(at) }, `${seconds((now - Date.parse(at)) / 1000)} ago`) : "–";

/** @param {string} id @param {string} title @param {Pieces[]} pieces */
const section = (id, title, ...pieces) =>
  h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...pieces);

/**
 * @param {string} caption
 * @param {string[]} heads one that begins with # is a column of numbers
 * @param {{ id?: string, cells: Pieces[] }[]} rows the first cell names the row
 */
function table(caption, heads, rows) {
  const numbers = heads.map((head) => (head.startsWith("#") ? ".number" : ""));
  const head = heads.map((head, at) => h(`th${numbers[at]}`, { scope: "col" }, head.replace("#", "")));
  const body = rows.map(({ id, cells: [name, ...cells] }) =>
    h("tr", { id }, h("th", { scope: "row" }, name), cells.map((cell, at) => h(`td${numbers[at + 1]}`, {}, cell))));
  return h("div.wide", { tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption.unseen", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

/** @param {Facts} status @param {Kept[]} kept @param {number} now */
function snapshots({ held, rollback }, kept, now) {
  const shown = kept.filter((one, at) => at < MOST_SNAPSHOTS || one.served || one.newest);
  const more = kept.length - shown.length;
  /** @param {Kept} one */
  const marks = (one) => [one.served && "current", one.newest && "newest", one.pinned && "pinned", one.exported && "exported",
    one.unconfirmed && "date in the future"].map((mark) => mark && h("span.tag", {}, mark));
  const rows = shown.map((one) => ({
    id: `kept-${one.id}`,
    cells: [
      [h("code", { title: one.id }, short(one.id)), ...marks(one)],
      count(one.listings), one.certificate, when(one.confirmed_at, now), when(one.published_at, now),
      [!one.served && button("rollback", one.id), button(one.pinned ? "unpin" : "pin", one.id), button("verify", one.id), !one.served && delta(one.id)],
    ],
  }));
  const heads = ["Snapshot", "#Listings", "Certificate", "Confirmed", "Published", "Actions"];
  return section("snapshots", "Snapshots",
    held && h("div.held", {}, h("h3", {}, "Held back"),
      h("p", {}, `Snapshot ${short(held.snapshot)} with ${counted(held.listings, "listing")} instead of ${count(held.serving)} waits: ${held.reason}. It lacks, for example:`),
      h("ul.texts", {}, held.vanishing.map((/** @type {{ id: number, name: string }} */ one) => h("li", {}, `${one.id} ${one.name}`))), button("accept")),
    rollback && h("p", {}, "A rollback is in effect. ", button("release")),
    rows.length > 0 ? table("Kept snapshots, the newest first", heads, rows) : h("p", {}, "None is kept yet."),
    more > 0 && h("p", {}, `${count(more)} more are kept; `, h("code", {}, "grandstand snapshot list"), " shows them."));
}

/** The object store that is followed, or written to. @param {string} title @param {Facts} store @param {number} now */
function fleet(title, store, now) {
  const { behind_seconds: behind, details_missing: missing } = store;
  const level = missing > 0 ? `${counted(missing, "detail")} ${missing === 1 ? "is on its" : "are on their"} way` : "nothing is missing";
  const lines = {
    Address: store.url,
    Head: store.sequence ?? "none yet",
    "Signed by": store.signed_by,
    State: behind === null ? "not compared yet" : behind > 0 ? `behind for ${seconds(behind)}` : level,
    "Last answer": when(store.last_poll ?? store.last_success, now),
  };
  const shown = Object.entries(lines).filter(([, text]) => text);
  return section("store", title, h("dl.lines", {}, shown.map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text)))));
}

/** What an operator can ask for, and what came of the last audit. @param {Facts} status @param {Facts | null} job */
function actions({ use, parity }, job) {
  const isMirror = use === "mirror";
  const equal = parity ? `${parity.percent.toFixed(2)} % of the last ${counted(parity.compared, "compared request")} equal the origin's answers.`
    : "Nothing was compared with the origin yet.";
  const audit = job && job.id > 0 && (job.summary ? `Last audit: ${job.summary}` : `Running audit: ${job.phase}, ${count(job.done)} of ${count(job.of)}.`);
  /** @type {{ request: string, differences: string[] }[]} */
  const differing = job?.report.differing ?? [];
  const found = differing.flatMap(({ request, differences }) => differences.map((text) => `${request}: ${text}`));
  const differences = [...new Set([...(parity?.differences ?? []), ...found])].slice(0, 20);
  return section("actions", "Actions",
    h("p.buttons", {}, (isMirror || use === "replica") && button("refresh"), isMirror && [button("sync"), button("audit")], button("purge")),
    isMirror && h("p", {}, equal), audit && h("p", {}, audit),
    differences.length > 0 && h("ul.texts", {}, differences.map((text) => h("li", {}, text))));
}

/** Every fact by its name, in the groups of /status. @param {Facts} status */
function everything({ findings, ...facts }) {
  /** @param {[string, any]} entry */
  const isGroup = ([, value]) => value !== null && typeof value === "object" && !Array.isArray(value);
  const entries = Object.entries(facts);
  /** @type {[string, any][]} */
  const groups = [["server", Object.fromEntries(entries.filter((entry) => !isGroup(entry)))], ...entries.filter(isGroup)];
  return section("facts", "Every fact of /status", groups.map(([name, value]) => h("details", { id: `facts-${name}` }, h("summary", {}, name),
    table(`Facts of ${name}`, ["Field", "Value"], flat(value).map(([field, text]) => ({ cells: [h("code", {}, field), text] }))))));
}

/**
 * @param {Facts} status
 * @param {Facts | null} kept the kept snapshots
 * @param {Facts | null} job the running audit, or the last one
 * @param {number} now milliseconds, by the server's clock
 */
function render(status, kept, job, now) {
  allow(status.admin?.writes ?? "free", kept !== null);
  const { word, kind, text } = stateOf(status);
  const of = status.origin.url ? ` of ${status.origin.url}` : "";
  need("use", HTMLElement).textContent = status.use === "offline" ? "offline server" : `${status.use}${of}`;
  const addresses = `${status.public_url}, listens on ${[...status.listen, ...(status.tls?.listen ?? [])].join(", ")}`;
  const up = h("span", { title: status.started_at && utc(status.started_at) }, seconds(status.uptime_seconds));
  morph(need("about", HTMLElement), h("p", { id: "about" }, `version ${status.version} · up `, up, ` · ${addresses}`));
  need("clock", HTMLElement).textContent = `Updated ${time()}`;
  need("demo", HTMLElement).hidden = !status.demo;

  const findings = status.findings.map(({ name, unhealthy, text, todo, since }) => h(`li.${unhealthy ? "unwell" : "attention"}`, {},
    h("p", {}, h("b", {}, rich(sentence(text)))), h("p", {}, rich(todo), " ", h("span.soft", {}, "Since ", when(since, now), ".")),
    REMEDIES[name] && button(REMEDIES[name], "", "top")));
  morph(need("health", HTMLElement), h(`section.health.${kind}`, { id: "health", "aria-label": "State" },
    h("h1", {}, h("span.sign", { "aria-hidden": "true" }), word), text && h("p", {}, text), findings.length > 0 && h("ul.findings", {}, findings)));

  const shown = tiles(status, minutes, now).map(({ name, value, note, more, title, share, wrong }) => h(`div${wrong ? ".wrong" : ""}`, { title },
    h("dt", {}, name), h("dd", {}, h("b", {}, glued(value)), share !== undefined && h("progress", { max: 1, value: share, "aria-label": name }),
      note && h("span", {}, glued(note)), more && h("span", {}, glued(more)))));
  fill(need("tiles", HTMLElement), [h("dl.tiles", {}, shown)]);

  const { replica, publish } = status;
  const parts = [
    kept && snapshots(status, kept.snapshots, now),
    replica && fleet("Object store followed", replica, now),
    publish && fleet("Object store", publish, now),
    actions(status, job),
    everything(status),
  ];
  fill(need("more", HTMLElement), parts.filter((part) => part !== null));

  const title = `${word} – grandstand`;
  if (document.title === title) return;
  document.title = title;
  need("spoken", HTMLElement).textContent = need("health", HTMLElement).textContent;
}

/** What the charts show, and its samples; and the samples of the last minutes, for the numbers. */
let span = "minutes";
/** @type {History | null} */
let history = null;
/** @type {History | null} */
let minutes = null;

/** @param {string} path @returns {Promise<[any, number]>} what is there, and the server's clock in milliseconds */
async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE) });
  const isStatus = path === "status" && answer.status === 503;
  if (!answer.ok && !isStatus) throw new Error(`/${path} answers ${answer.status}`);
  return [await answer.json(), Date.parse(answer.headers.get("date") ?? "") || Date.now()];
}

/**
 * The samples of a span, asked for only if there may be a new one.
 * @param {History | null} known
 * @param {string} wanted
 * @param {number} now
 * @returns {Promise<History>}
 */
async function samples(known, wanted, now) {
  const isNew = known?.span === wanted && now < Date.parse(known.until) + known.step_seconds * 1000 + 500;
  return isNew ? known : (await get(`history.json?span=${wanted}`))[0];
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

let timer = 0;
let isLooking = false;
/** When the server last answered. */
let answered = time();

async function look() {
  clearTimeout(timer);
  if (document.hidden || isLooking) return;
  isLooking = true;
  const lost = need("lost", HTMLElement);
  const found = await ask().catch((error) => {
    lost.textContent = `No answer since ${answered} (${why(error)}). What you see is from then. The console keeps asking.`;
    return null;
  });
  isLooking = false;
  timer = setTimeout(look, EVERY);
  lost.hidden = found !== null;
  if (!found) return;
  answered = time();
  render(found.status, found.kept, found.job, found.now);
  if (history) draw(history, found.status);
}

for (const chosen of document.querySelectorAll("[data-span]")) {
  chosen.addEventListener("click", () => {
    span = chosen.getAttribute("data-span") ?? span;
    for (const one of document.querySelectorAll("[data-span]")) one.setAttribute("aria-pressed", String(one === chosen));
    look();
  });
}

document.addEventListener("visibilitychange", look);
listen(look);
follow(look);
look();
