// @ts-check
// What the console says, as functions of /status and /history.json: numbers with units, the state, the tiles.

/** @typedef {{ name: string, unhealthy: boolean, text: string, todo: string, since: string | null }} Finding */
/** @typedef {Record<string, any> & { findings: Finding[] }} Facts  of /status */
/**
 * @typedef {{ id: string, listings: number, bytes: number | null, certificate: string, confirmed_at: string | null, published_at: string | null,
 *   served: boolean, newest: boolean, pinned: boolean, exported: boolean, unconfirmed: boolean }} Kept  a snapshot of /snapshots
 */
/** @typedef {(number | null)[]} Column */
/**
 * @typedef {{ span: string, step_seconds: number, until: string, answers: Record<string, Column>, not_modified: Column,
 *   p50_microseconds: Column, p99_microseconds: Column, origin_requests: Record<string, Column>, origin_budget: Record<string, Column>,
 *   age_seconds: Column, pages: Column, details: Column, parity: Column, memory_bytes: Column }} History
 */
/** @typedef {{ name: string, value: string, note?: string, more?: string, title?: string, share?: number, wrong?: boolean }} Tile */

/** @param {number} number */
export const count = (number) => number.toLocaleString("en");

/**
 * A count with its noun: 1 entry, 2 entries.
 * @param {number} number
 * @param {string} noun
 */
export function counted(number, noun) {
  if (number === 1) return `1 ${noun}`;
  return `${count(number)} ${/[^aeo]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;
}

/** Enough of an id to tell snapshots apart. @param {string} id */
export const short = (id) => id.slice(0, 12);

/** A text in which no line ends between a number and its unit. @param {string} text */
export const glued = (text) => text.replace(/(\d) /g, "$1\u00a0");

/** @param {number} part of one; rounded down, so that 100 % means all */
export const percent = (part) => (part >= 1 ? "100 %" : `${(Math.floor(part * 1000) / 10).toFixed(1)} %`);

/** @type {Record<string, [number, string, number][]>} From how much on a unit is used, its name, and its size. */
const UNITS = {
  seconds: [[172800, "days", 86400], [7200, "h", 3600], [120, "min", 60], [0, "s", 1]],
  micros: [[1e6, "s", 1e6], [1000, "ms", 1000], [0, "µs", 1]],
  bytes: [[1e9, "GB", 1e9], [1e6, "MB", 1e6], [10000, "kB", 1000], [0, "bytes", 1]],
  perSecond: [[0, "/s", 1]],
  perMinute: [[0, "/min", 1]],
  count: [[0, "", 1]],
  share: [[0, "%", 0.01]],
};

/**
 * The unit for values up to `most`, and its size.
 * @param {string} kind
 * @param {number} most
 */
export function unit(kind, most) {
  const [, name, size] = UNITS[kind].find(([from]) => most >= from) ?? UNITS[kind][0];
  return { name, size };
}

/**
 * A value with its unit and as many decimals as it needs: 1.2 ms, 45 MB, 0.03 /s.
 * @param {string} kind
 * @param {number} value
 */
export function valued(kind, value) {
  if (kind === "seconds") return seconds(value);
  if (kind === "share") return percent(value);
  const { name, size } = unit(kind, value);
  return `${decimal(value / size)} ${name}`.trim();
}

/** @param {number} number */
function decimal(number) {
  const digits = number === 0 || number >= 10 || Number.isInteger(number) ? 0 : number < 0.1 ? 2 : 1;
  return number.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A time of so many seconds: 42 s, 3 min, 2 h 5 min, 3 days. @param {number} seconds */
export function seconds(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const { name, size } = unit("seconds", whole);
  const rest = name === "h" ? Math.floor((whole % 3600) / 60) : 0;
  return `${count(Math.floor(whole / size))} ${name}${rest ? ` ${rest} min` : ""}`;
}

/** 2026-11-22 11:25:00 UTC @param {string} instant RFC 3339 */
export const utc = (instant) => `${instant.slice(0, 10)} ${instant.slice(11, 19)} UTC`;

/** How the origin is, and what the last request to it said. @type {Record<string, [string, string]>} */
const ORIGIN = {
  "not-asked": ["Not asked yet", ""],
  crawling: ["Answers", "every page is being read"],
  answering: ["Answers", ""],
  unchanged: ["Answers", "no changes at the last refresh"],
  changed: ["Answers", "changes at the last refresh"],
  "could-not-be-asked": ["Fails", ""],
  nonsense: ["Fails", "its answers cannot be used"],
};

/** What requests to the origin are for. @type {Record<string, string>} */
export const PURPOSES = { refresh: "refresh", client: "clients", crawl: "pages", details: "details", background: "background" };

const isFailing = (/** @type {Facts} */ status) => ["could-not-be-asked", "nonsense"].includes(status.origin.state);

/**
 * The state in words, and its class in the stylesheet.
 * @param {Facts} status
 * @returns {{ word: string, kind: "well" | "attention" | "unwell", text: string }}
 */
export function stateOf(status) {
  const wrong = status.findings.filter((one) => one.unhealthy);
  const isFirst = ["mirror", "replica"].includes(status.use) && wrong.every((one) => one.name === "no-data");
  if (wrong.length > 0 && isFirst) return { word: "Making the first copy", kind: "attention", text: "" };
  if (wrong.length > 0) return { word: "Unhealthy", kind: "unwell", text: "" };
  if (status.findings.length > 0) return { word: "Healthy, but look at this", kind: "attention", text: "" };
  const texts = /** @type {Record<string, string>} */ ({
    mirror: "The origin confirmed the data in time, nothing is held back, and the disk works.",
    shield: "The origin answers, and clients get cached answers where possible.",
    offline: "There is data to serve, and the disk works.",
    replica: "The data is the publisher's, it was confirmed in time, and the disk works.",
  });
  return { word: "Healthy", kind: "well", text: texts[status.use] ?? "" };
}

/** The newest value of a column; null: the newest sample has none. @param {Column | undefined} column */
const last = (column) => column?.at(-1) ?? null;

/**
 * The sum of columns, value by value; null where all are.
 * @param {Column[]} columns
 * @returns {Column}
 */
export function sum(columns) {
  return (columns[0] ?? []).map((_, at) => {
    const there = columns.map((column) => column[at]).filter((value) => value !== null);
    return there.length > 0 ? there.reduce((all, value) => all + value, 0) : null;
  });
}

/** The places of values between two gaps: no line shows them. @param {Column} column */
export const lonely = (column) =>
  column.flatMap((value, at) => (value !== null && (column[at - 1] ?? null) === null && (column[at + 1] ?? null) === null ? [at] : []));

/**
 * The count in the minute before the end of each sample, as limits count.
 * @param {Column} column
 * @param {number} step seconds of one sample
 * @returns {Column}
 */
export function inMinute(column, step) {
  const most = Math.max(1, Math.round(60 / step));
  const minute = (/** @type {number} */ at) => column.slice(Math.max(0, at + 1 - most), at + 1);
  return column.map((value, at) => (value === null ? null : minute(at).reduce((all, one) => (all ?? 0) + (one ?? 0), 0)));
}

/**
 * How far the copy is: the details, else the running pass.
 * @param {Facts} status
 * @param {number} now milliseconds
 * @returns {Tile | null}
 */
function progress(status, now) {
  const { pass, eta_seconds: eta } = status.origin;
  const details = status.details;
  const texts = [];
  if (details) texts.push(`${count(details.mirrored)} of ${counted(details.of, "detail")}`);
  if (details?.current < details?.mirrored) texts.push(`${count(details.mirrored - details.current)} outdated`);
  if (pass?.of > 0) texts.push(`${count(pass.done)} of ${counted(pass.of, "request")}`);
  if (pass && !pass.of) texts.push("waits for the first page");
  if (texts.length === 0) return null;
  const at = new Date(now + eta * 1000).toLocaleTimeString([], { hour12: false, timeStyle: "short" });
  const end = eta > 0 ? `ends in about ${seconds(eta)}, at ${at}` : "";
  const isMissing = details?.mirrored < details?.of;
  const share = isMissing ? details.mirrored / details.of : pass?.of > 0 ? pass.done / pass.of : pass ? 0 : 1;
  const isWhole = !pass && details && details.current === details.of;
  return { name: "Progress", value: isWhole ? "Complete" : percent(share), note: texts.join(", "), more: end, share };
}

/**
 * The numbers at the top.
 * @param {Facts} status
 * @param {History | null} history of the last minutes
 * @param {number} now milliseconds, by the server's clock
 * @returns {Tile[]}
 */
export function tiles(status, history, now) {
  const { origin, replica, rate_limit: limit } = status;
  const ago = (/** @type {string} */ at) => `${seconds((now - Date.parse(at)) / 1000)} ago`;
  /** @type {(Tile | null | false)[]} */
  const all = [];
  const rate = history && last(sum(Object.values(history.answers)));
  const [p50, p99] = [last(history?.p50_microseconds), last(history?.p99_microseconds)];
  all.push({
    name: "Requests",
    value: history && rate !== null ? valued("perSecond", rate / history.step_seconds) : "–",
    note: p50 !== null && p99 !== null ? `p50 ${valued("micros", p50)}, p99 ${valued("micros", p99)}`
      : rate === null ? "measured every 10 s" : "none in the last 10 s",
  });
  const most = limit.requests_per_minute;
  const refused = history ? last(inMinute(history.answers.refused, history.step_seconds)) : null;
  all.push({
    name: "Refused (429)",
    value: refused === null ? "–" : valued("perMinute", refused),
    note: most ? `limit: ${count(most)} a minute for each client` : "there is no limit",
    more: `${counted(limit.clients ?? 0, "client")} counted${limit.why ? ", by this machine alone" : ""}`,
  });
  all.push(origin.budget && {
    name: "Hit ratio",
    value: status.hit_ratio === null ? "–" : percent(status.hit_ratio),
    note: "API requests answered without the origin, since the start",
  });
  if (status.confirmed_at) {
    all.push({
      name: "Age of the data",
      value: status.unconfirmed ? "in the future" : status.age_seconds === null ? "unknown" : seconds(status.age_seconds),
      note: status.unhealthy_after_seconds ? `unhealthy above ${seconds(status.unhealthy_after_seconds)}` : "any age is healthy",
      more: counted(status.listings, "listing"),
      title: `confirmed at ${utc(status.confirmed_at)}`,
      wrong: status.unconfirmed || (status.unhealthy_after_seconds && status.age_seconds > status.unhealthy_after_seconds),
    });
  }
  all.push(status.use === "mirror" && progress(status, now));
  if (status.use === "mirror") {
    const next = origin.next_refresh_seconds;
    all.push({
      name: "Next refresh",
      value: next === null || next === undefined || !status.snapshot ? "–" : next > 0 ? `in ${seconds(next)}` : isFailing(status) ? "overdue" : "now",
      note: origin.refreshed_at ? `the last one was ${ago(origin.refreshed_at)}` : status.snapshot ? "there was none yet" : "after the first copy",
      title: origin.refreshed_at ? utc(origin.refreshed_at) : "",
    });
  }
  if (replica) {
    const { sequence, behind_seconds: behind } = replica;
    const head = sequence === null ? "no head yet" : `head ${sequence}`;
    all.push({
      name: "Follows",
      value: replica.url ?? "a publisher",
      note: `${head}, ${behind === null ? "not compared yet" : behind > 0 ? `behind for ${seconds(behind)}` : "nothing is missing"}`,
      more: replica.last_poll ? `the store answered ${ago(replica.last_poll)}` : "the store has not answered yet",
      title: replica.last_poll ? utc(replica.last_poll) : "",
      wrong: Boolean(replica.why),
    });
  }
  if (origin.budget) {
    const { limit: allowed, free, paused_seconds: paused, waiting } = origin.budget;
    const [value, said] = status.held && !isFailing(status) ? ["Answers", "its changes are held back"] : (ORIGIN[origin.state] ?? [origin.state, ""]);
    const budget = allowed === null ? "no limit for requests to it" : `${count(free)} of ${counted(allowed, "request")} a minute free`;
    const texts = [budget, paused > 0 && `paused for ${seconds(paused)}`, waiting > 0 && `${count(waiting)} waiting`];
    all.push({ name: "Origin", value, note: said, more: texts.filter(Boolean).join(", "), title: origin.url ?? "", wrong: isFailing(status) });
  }
  all.push({
    name: "Memory",
    value: status.memory_bytes ? valued("bytes", status.memory_bytes) : "–",
    note: `cache: ${valued("bytes", status.cache.bytes)}, ${counted(status.cache.entries, "entry")}`,
  });
  return /** @type {Tile[]} */ (all.filter(Boolean));
}

/**
 * Every fact by its name in /status.
 * @param {any} value
 * @param {string} [name]
 * @returns {[string, string][]}
 */
export function flat(value, name = "") {
  const nested = value !== null && typeof value === "object";
  const entries = nested ? Object.entries(value) : [];
  if (Array.isArray(value) && !value.some((one) => one !== null && typeof one === "object")) return [[name, value.join("; ") || "–"]];
  if (entries.length > 0) return entries.flatMap(([key, one]) => flat(one, name ? `${name}.${key}` : key));
  return [[name, nested || value === null || value === "" ? "–" : String(value)]];
}
