// @ts-check
// Says how long ago each instant of the page is: "4 minutes ago". Without it the page shows the instant alone.

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

if (typeof document !== "undefined") {
  show();
  setInterval(show, 15_000);
}
