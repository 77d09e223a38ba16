// @ts-check
// What depends on the visitor's clock: how long ago each instant of the page is ("4 minutes ago"), and the days of a week from
// today on, and the seconds that are left. Without it the page shows the instant alone, and the days in their own order.

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

/**
 * @param {number} seconds how long ago
 * @returns {string}
 */
export function ago(seconds) {
  const past = Math.max(0, Math.round(seconds));
  const [unit, size] = UNITS.find(([, size]) => past >= size) ?? UNITS[3];
  return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-Math.floor(past / size), unit);
}

/** Writes it behind every instant. */
function show() {
  for (const time of document.querySelectorAll("time")) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const shown = time.nextElementSibling;
    const text = ` (${ago((Date.now() - at) / 1000)})`;
    if (shown instanceof HTMLElement && shown.classList.contains("ago")) {
      shown.textContent = text;
    } else {
      const span = document.createElement("span");
      span.className = "ago";
      span.textContent = text;
      time.after(span);
    }
  }
}

/** Begins every list of days with today. */
function turn() {
  const names = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
  const today = new Date().getDay();
  const days = [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("dt[data-day]"))];
  const away = (/** @type {HTMLElement} */ day) => (names.indexOf(day.dataset.day ?? "") - today + 7) % 7;
  for (const day of days.toSorted((one, other) => away(one) - away(other))) {
    day.classList.toggle("today", away(day) === 0);
    const hours = day.nextElementSibling;
    if (hours) day.parentElement?.append(day, hours);
  }
}

/** Counts the seconds down after which the browser loads the page again. */
function count() {
  const left = document.querySelector("[data-seconds]");
  if (left) left.textContent = String(Math.max(0, Number(left.textContent) - 1));
}

if (typeof document !== "undefined") {
  turn();
  show();
  setInterval(show, 15_000);
  setInterval(count, 1000);
}
