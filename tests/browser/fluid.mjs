// Measures whether the map of the explorer stays fluid: fluid.mjs LISTINGS. Prints a table in Markdown.
//
// Frames: milliseconds between two frames while the page scrolls up and down, the pointer moves over the list and the map
// (each marks a venue in the other), filters change, the map zooms in and out, and somebody types. Tasks: what
// keeps the page from answering, in milliseconds.

import { browser, open } from "./looks.mjs";
import { Mirror, Origin, until } from "./servers.mjs";

const listings = Number(process.argv[2] ?? 5000);
const SECONDS = 10;
const chromium = await browser();
const origin = await Origin.start(listings);
const mirror = await Mirror.start(origin, ['mirror.details="on-demand"', 'ttl="1h"'], false);
// A million need longer than a test waits.
while (!(await mirror.status()).snapshot?.id) await new Promise((resolve) => setTimeout(resolve, 1000));

/**
 * @param {number[]} values
 * @param {number} part
 */
const quantile = (values, part) => values.toSorted((one, other) => one - other)[Math.floor(part * (values.length - 1))] ?? 0;

/**
 * Frames and long tasks while something goes on.
 * @param {any} page
 * @param {() => Promise<void>} act once; repeated until the time is over
 */
async function watched(page, act) {
  await page.evaluate(() => {
    const seen = { frames: /** @type {number[]} */ ([]), tasks: /** @type {number[]} */ ([]), on: true };
    Object.assign(globalThis, { seen });
    new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask" });
    let last = performance.now();
    requestAnimationFrame(function frame(now) {
      seen.frames.push(now - last);
      last = now;
      if (seen.on) requestAnimationFrame(frame);
    });
  });
  const end = Date.now() + SECONDS * 1000;
  while (Date.now() < end) await act();
  return page.evaluate(() => {
    const { seen } = /** @type {any} */ (globalThis);
    seen.on = false;
    return seen;
  });
}

try {
  const { page } = await open(chromium, { viewport: { width: 1440, height: 900 } });
  await page.goto(`${mirror.url}/explore`, { waitUntil: "networkidle" });
  await page.locator("#map :is(.dot, .cell)").first().waitFor();
  const drawn = await page.locator("#map :is(.dot, .cell)").count();
  const rows = page.locator("#venues tr");
  let turn = 0;
  const sports = await page.locator("#sport option").evaluateAll((/** @type {HTMLOptionElement[]} */ all) => all.map((one) => one.value));
  const listed = () => until("the list", () => page.evaluate(() => !document.querySelector(".explorer")?.classList.contains("busy")));
  const acts = {
    "scrolling over the map": async () => {
      turn += 1;
      await page.mouse.wheel(0, turn % 20 < 10 ? 60 : -60);
      await page.waitForTimeout(16);
    },
    "pointing at rows": async () => {
      turn += 1;
      await rows.nth(turn % 10).hover();
    },
    "pointing at dots": async () => {
      turn += 1;
      const map = await page.locator("#map").boundingBox();
      await page.mouse.move(map.x + map.width * (0.2 + 0.006 * (turn % 100)), map.y + map.height * (0.3 + 0.003 * (turn % 100)));
      await page.waitForTimeout(16);
    },
    "zooming in and out": async () => {
      turn += 1;
      await page.locator("#map").hover();
      await page.mouse.wheel(0, turn % 8 < 4 ? -120 : 120);
      await page.waitForTimeout(100);
    },
    "typing": async () => {
      turn += 1;
      if (turn % 8 === 0) await page.fill("#q", "");
      await page.locator("#q").pressSequentially("golf par"[turn % 8], { delay: 60 });
      if (turn % 3 === 0) await listed();
    },
    "changing the sport": async () => {
      turn += 1;
      const sport = sports[turn % sports.length];
      await page.selectOption("#sport", sport);
      await listed();
    },
  };
  console.log(`${listings.toLocaleString("en-US")} venues, ${drawn.toLocaleString("en-US")} dots or counts; ${SECONDS} s each; Chromium ${chromium.version()} without a graphics card.\n`);
  console.log("| | frames a second | frame p50, ms | frame p99, ms | tasks over 50 ms | the longest, ms |\n|---|---:|---:|---:|---:|---:|");
  for (const [name, act] of Object.entries(acts)) {
    const { frames, tasks } = await watched(page, act);
    const cells = [frames.length / SECONDS, quantile(frames, 0.5), quantile(frames, 0.99), tasks.length, Math.max(0, ...tasks)];
    console.log(`| ${name} | ${cells.map((cell) => cell.toFixed(0)).join(" | ")} |`);
  }
} finally {
  await chromium.close();
  await mirror.kill();
  await origin.kill();
}
