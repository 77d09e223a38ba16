// A browser, and what every page has to keep: no message on the console, no request to another host, nothing that axe
// finds, nothing wider than the window.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

import { PATIENCE } from "./servers.mjs";

const { BROWSER_HOME = "target/browser", CHROMIUM = "/usr/bin/chromium" } = process.env;
const installed = createRequire(resolve(BROWSER_HOME, "index.js"));
const { chromium } = installed("playwright-core");
const axe = readFileSync(installed.resolve("axe-core/axe.min.js"), "utf8");

/** Widths of a window in pixels: a small telephone, a large screen. */
export const WIDTHS = [320, 1440];
export const SCHEMES = /** @type {const} */ (["light", "dark"]);

export async function browser() {
  // Debian's Chromium refuses its sandbox to root.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: CHROMIUM, args, timeout: PATIENCE });
}

/**
 * Opens a page and watches it. What it notices is in `noticed`; a test ends with `assertClean`.
 * @param {any} from the browser
 * @param {Record<string, unknown>} [options] of the browser's context
 */
export async function open(from, options = {}) {
  const context = await from.newContext(options);
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  /** @type {string[]} */
  const noticed = [];
  page.on("console", (/** @type {any} */ message) => {
    // By design: the status of an unhealthy server.
    if (/ 503 /.test(message.text()) && message.location().url.endsWith("/status")) return;
    if (["error", "warning"].includes(message.type())) noticed.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (/** @type {Error} */ error) => noticed.push(`exception: ${error.message}`));
  page.on("request", (/** @type {any} */ request) => {
    const url = new URL(request.url());
    if (!["127.0.0.1", ""].includes(url.hostname)) noticed.push(`another host: ${url}`);
  });
  return { page, noticed };
}

/** @param {{ page: any, noticed: string[] }} opened */
export async function assertClean({ page, noticed }) {
  await page.context().close();
  assert.deepEqual(noticed, []);
}

/**
 * What axe finds, one line for each element.
 * @param {any} page
 */
export async function violations(page) {
  await page.evaluate(axe);
  const { violations: found } = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run());
  return found.flatMap((/** @type {any} */ rule) =>
    rule.nodes.map((/** @type {any} */ node) => `${rule.id}: ${node.target} (${node.any[0]?.message ?? rule.help})`));
}

/**
 * The elements that make a page wider than its window.
 * @param {any} page
 * @returns {Promise<string[]>}
 */
export function tooWide(page) {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const wide = [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > width + 1);
    return [`${document.documentElement.scrollWidth} pixels of ${width}`, ...wide.map((one) => one.outerHTML.slice(0, 120))];
  });
}
