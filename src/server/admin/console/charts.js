// @ts-check
// The charts: which there are, and how uPlot draws them.

import { fill, h, need } from "./dom.js";
import { PURPOSES, inMinute, lonely, sum, unit, valued } from "./words.js";

/** @typedef {import("./words.js").Column} Column */
/** @typedef {import("./words.js").Facts} Facts */
/** @typedef {import("./words.js").History} History */
/** @typedef {{ name: string, hue: string, values: Column }} Series  `hue` is a colour of the stylesheet; `soft` is for limits */
/** @typedef {{ id: string, title: string, kind: string, series: Series[] }} Chart */

/** @param {string} name @param {string} hue @param {Column} values @returns {Series} */
const line = (name, hue, values) => ({ name, hue, values });

/**
 * The charts that make sense for a use of the server.
 * @param {History} history
 * @param {Facts} status
 * @returns {Chart[]}
 */
function charts(history, status) {
  const { answers, step_seconds: step } = history;
  const all = sum(Object.values(answers));
  /** @param {Column} column @returns {Column} */
  const rate = (column) => column.map((value) => (value === null ? null : value / step));
  /** @param {Column} column @returns {Column} */
  const share = (column) => column.map((value, at) => (value === null || !all[at] ? null : value / all[at]));
  /** @param {string} name @param {number | null | undefined} value @returns {Series[]} */
  const limit = (name, value) => (value ? [line(name, "soft", all.map(() => value))] : []);
  const { budget } = status.origin;
  const hues = ["hue1", "hue3", "hue2", "hue4", "hue6"];
  /** @type {(Chart | false)[]} */
  const drawn = [
    {
      id: "requests", title: "Requests by outcome", kind: "perSecond",
      series: [
        line("hit", "hue1", rate(answers.fresh)), line("stale", "hue2", rate(answers.stale)), line("origin", "hue3", rate(answers.origin)),
        line("429", "hue4", rate(answers.refused)), line("error", "hue5", rate(answers.error)), line("page", "hue6", rate(answers.other)),
      ],
    },
    {
      id: "latency", title: "Time to answer", kind: "micros",
      series: [line("p50", "hue1", history.p50_microseconds), line("p99", "hue3", history.p99_microseconds)],
    },
    {
      id: "shares", title: "Share of all answers", kind: "share",
      series: [line("hit or stale", "hue1", share(sum([answers.fresh, answers.stale]))), line("304", "hue3", share(history.not_modified))],
    },
    { id: "refused", title: "Refused by the rate limit (429)", kind: "perMinute", series: [line("429", "hue4", inMinute(answers.refused, step))] },
    Boolean(budget) && {
      id: "spent", title: "Origin requests in a minute", kind: "count",
      series: [
        // What counts in the budget, so that the chart is never above it where the origin saw no more.
        ...Object.entries(PURPOSES).map(([purpose, name], at) => line(name, hues[at],
          budget.limit ? history.origin_budget[purpose] : inMinute(history.origin_requests[purpose], step))),
        ...limit("budget", budget.limit),
      ],
    },
    status.use !== "shield" && {
      id: "age", title: "Age of the data", kind: "seconds",
      series: [line("age", "hue1", history.age_seconds), ...limit("unhealthy above", status.unhealthy_after_seconds)],
    },
    { id: "memory", title: "Memory", kind: "bytes", series: [line("resident", "hue1", history.memory_bytes)] },
    status.use === "mirror" && {
      id: "copy", title: "Progress and parity", kind: "share",
      series: [
        line("details", "hue1", history.details), line("pages of a pass", "hue3", history.pages), line("equal to the origin", "hue4", history.parity),
      ],
    },
  ];
  return drawn.filter((chart) => chart !== false);
}

/** The library's charts by id. @type {Map<string, any>} */
const plots = new Map();

/** @param {number} at seconds since 1970 */
const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false, timeStyle: "short" });

/** Shows the values at the pointer below a chart, else the newest. @param {any} plot */
function legend(plot) {
  const { id, kind, series } = /** @type {Chart} */ (plot.chart);
  const at = plot.cursor.idx ?? plot.data[0].length - 1;
  const when = plot.cursor.idx === null ? "now" : new Date(plot.data[0][at] * 1000).toLocaleTimeString([], { hour12: false });
  const values = series.map(({ name, hue, values }) => {
    const value = values[at];
    const key = h(`span.key.${hue}`, { "aria-hidden": "true" });
    return h("span", {}, key, `${name} `, h("b", {}, value === null ? "–" : valued(kind, value)));
  });
  fill(need(`legend-${id}`, HTMLElement), [h("span", {}, when), ...values]);
}

/** Distances of ticks that are round in seconds, minutes, hours and days. */
const TIMES = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000, 8640000];
/** The least end of an axis, so that a little is not drawn large. @type {Record<string, number>} */
const LEAST = { perSecond: 1, micros: 100, bytes: 1e6 };

/**
 * What the library needs to know of a chart.
 * @param {Chart} chart
 * @param {Element} into
 */
function options({ kind, series }, into) {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const grid = { stroke: colour("grid"), width: 1 };
  const axis = { stroke: colour("soft"), grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  /** All ticks have the unit of the highest. @param {any} _ @param {number[]} splits */
  const labels = (_, splits) => {
    const { name, size } = unit(kind, Math.max(...splits));
    return splits.map((value) => `${(value / size).toLocaleString("en", { maximumFractionDigits: 3 })} ${name}`.trim());
  };
  /** @param {any} _ @param {string[] | null} texts */
  const width = (_, texts) => 14 + 7 * Math.max(3, ...(texts ?? []).map((text) => text.length));
  /** @param {any} _ @param {number} low @param {number} high */
  const range = (_, low, high) => [0, kind === "share" ? 1 : Math.max(high * 1.1, LEAST[kind] ?? 10)];
  /** @param {any} plot @param {number} at @param {boolean} isShown all points */
  const alone = (plot, at, isShown) => (isShown ? null : lonely(plot.data[at]));
  return {
    width: into.clientWidth,
    height: into.clientHeight,
    padding: [10, 20, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false, setScale: false }, points: { size: 6 } },
    scales: { y: { range } },
    axes: [
      { ...axis, size: 24, space: 60, values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map(clock) },
      { ...axis, size: width, space: 28, values: labels, ...(kind === "seconds" ? { incrs: TIMES } : {}) },
    ],
    series: [{}, ...series.map(({ hue }) => hue === "soft"
      ? { stroke: colour(hue), width: 1, dash: [6, 4], points: { show: false } }
      : { stroke: colour(hue), width: 2, points: { size: 4, filter: alone } })],
    hooks: { setCursor: [(/** @type {any} */ plot) => plot.chart && legend(plot)] },
  };
}

/**
 * @param {History} history
 * @param {Facts} status
 */
export function draw(history, status) {
  const { step_seconds: step, age_seconds: { length }, answers } = history;
  const until = Date.parse(history.until) / 1000;
  const times = Array.from({ length }, (_, at) => until - (length - 1 - at) * step);
  // The charts of a server that has just started begin with it.
  const started = answers.fresh.findIndex((value) => value !== null);
  const first = Math.min(started < 0 ? length : started, length - 18);
  for (const chart of charts(history, status)) {
    const { id, title } = chart;
    if (!document.getElementById(`plot-${id}`)) {
      const about = { role: "group", "aria-label": "Chart: the arrow keys move through the samples", "aria-describedby": `legend-${id}` };
      need("plots", HTMLElement).append(h("figure", { "aria-labelledby": `title-${id}` }, h("figcaption", { id: `title-${id}` }, title),
        h("div.plot", { id: `plot-${id}`, tabindex: 0, ...about }), h("p.legend", { id: `legend-${id}` })));
    }
    const series = chart.series.map((one) => ({ ...one, values: one.values.slice(first) }));
    const data = [times.slice(first), ...series.map(({ values }) => values)];
    let plot = plots.get(id);
    if (plot?.series.length === data.length) {
      plot.setData(data);
    } else {
      plot?.destroy();
      const into = need(`plot-${id}`, HTMLElement);
      plot = new /** @type {any} */ (globalThis).uPlot(options(chart, into), data, into);
      plots.set(id, plot);
    }
    plot.chart = { ...chart, series };
    legend(plot);
  }
}

/** Listens to keys, and to changes of width and colours. @param {() => void} look draws again */
export function follow(look) {
  const all = need("plots", HTMLElement);
  all.addEventListener("keydown", (event) => {
    const plot = event.target instanceof HTMLElement ? plots.get(event.target.id.replace("plot-", "")) : null;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!plot || !step) return;
    event.preventDefault();
    const times = plot.data[0];
    const at = Math.min(times.length - 1, Math.max(0, (plot.cursor.idx ?? times.length) + step));
    plot.setCursor({ left: plot.valToPos(times[at], "x"), top: 0 });
  });
  new ResizeObserver(() => {
    for (const plot of plots.values()) plot.setSize({ width: plot.root.parentElement.clientWidth, height: plot.height });
  }).observe(all);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const plot of plots.values()) plot.destroy();
    plots.clear();
    look();
  });
}
