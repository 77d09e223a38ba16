// Takes the pictures of the documentation: pictures.mjs DIRECTORY.

import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { browser, open } from "./looks.mjs";
import { Mirror, Origin } from "./servers.mjs";

const directory = process.argv[2] ?? ".";
mkdirSync(directory, { recursive: true });
const chromium = await browser();
const origin = await Origin.start(5000);
const mirror = await Mirror.start(origin, ['ttl="5m"']);

/** A minute of readers, so that the console's charts have something to show. */
async function readers() {
  const paths = ["", "?sport=golf", "?state=texas&page=2", "?page=7", "?city=austin"];
  const tags = new Map();
  for (let nth = 0; nth < 700; nth += 1) {
    const path = paths[nth % paths.length];
    const answer = await fetch(`${mirror.url}/api/listings.json${path}`, { headers: tags.has(path) && nth % 3 ? { "If-None-Match": tags.get(path) } : {} });
    tags.set(path, answer.headers.get("etag"));
    await answer.arrayBuffer();
    await new Promise((resolve) => setTimeout(resolve, 40 + 60 * Math.sin(nth / 60) ** 2));
  }
}

try {
  await readers();
  const pages = /** @type {const} */ ([
    ["front", mirror.url, 820],
    ["explore", `${mirror.url}/explore?sport=golf`, 820],
    ["docs", `${mirror.url}/docs`, 900],
    ["console", mirror.admin, 900],
  ]);
  for (const [name, url, height] of pages) {
    for (const [suffix, options] of /** @type {const} */ ([
      ["", { viewport: { width: 1120, height } }],
      ["-dark", { viewport: { width: 1120, height }, colorScheme: "dark" }],
      ["-small", { viewport: { width: 320, height: 700 } }],
    ])) {
      const { page } = await open(chromium, options);
      await page.goto(url, { waitUntil: url === mirror.admin ? "load" : "networkidle" });
      if (url === mirror.admin) await page.locator("#snapshots").waitFor();
      await page.screenshot({ path: join(directory, `${name}${suffix}.png`) });
      await page.context().close();
    }
  }
} finally {
  await chromium.close();
  await mirror.kill();
  await origin.kill();
}
