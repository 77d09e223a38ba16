// The operator's page in a browser.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { SCHEMES, WIDTHS, assertClean, browser, open, tooWide, violations } from "./looks.mjs";
import { Mirror, Origin, until } from "./servers.mjs";

/** @type {any} */
let chromium;
/** @type {Origin} */
let origin;
/** @type {Mirror} */
let mirror;

const snapshot = async () => (await fetch(`${mirror.url}/api/sports.json`)).headers.get("mirror-snapshot");

before(async () => {
  chromium = await browser();
  origin = await Origin.start(300);
  mirror = await Mirror.start(origin);
  const first = await snapshot();
  await origin.edit("touch", 3);
  await fetch(`${mirror.admin}/refresh`, { method: "POST" });
  await until("the second snapshot", async () => (await snapshot()) !== first);
});

after(async () => {
  await chromium?.close();
  await mirror?.kill();
  await origin?.kill();
});

for (const colorScheme of SCHEMES) {
  for (const width of WIDTHS) {
    test(`the page is accessible and fits, ${colorScheme}, ${width} pixels wide`, async () => {
      const opened = await open(chromium, { colorScheme, viewport: { width, height: 800 } });
      await opened.page.goto(mirror.admin);
      await opened.page.locator("#snapshots").waitFor();
      assert.deepEqual(await violations(opened.page), []);
      assert.deepEqual(await tooWide(opened.page), []);
      await assertClean(opened);
    });
  }
}

test("a rollback asks first, takes effect, and is released", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(mirror.admin);
  const newest = await snapshot();
  const roll = page.getByRole("button", { name: /^Roll back/ }).first();
  await roll.click();
  const dialog = page.locator("#ask");
  assert.match(await dialog.innerText(), /Clients get snapshot/);
  assert.deepEqual(await violations(page), []);
  await dialog.locator("#ask-no").click();
  await dialog.waitFor({ state: "hidden" });
  assert.equal(await snapshot(), newest, "nothing is done without a yes");
  await roll.click();
  await dialog.getByRole("button").and(page.locator(":not(#ask-no)")).click();
  const release = page.getByRole("button", { name: "Release" }).first();
  await release.waitFor();
  assert.match(await page.locator("#outcome").innerText(), /is current now/);
  assert.notEqual(await snapshot(), newest);
  await release.click();
  await dialog.getByRole("button").and(page.locator(":not(#ask-no)")).click();
  await until("the release", async () => (await snapshot()) === newest);
  await release.waitFor({ state: "detached" });
  await assertClean(opened);
});

test("a bundle can be downloaded and imported", async () => {
  const opened = await open(chromium, { acceptDownloads: true });
  const { page } = opened;
  await page.goto(mirror.admin);
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#bundle")]);
  assert.match(download.suggestedFilename(), /\.gsb$/);
  await page.setInputFiles("#file", await download.path());
  await page.locator("#upload button").click();
  await page.locator("#ask").getByRole("button").and(page.locator(":not(#ask-no)")).click();
  await until("the outcome", async () => /Imported|Not /.test(await page.locator("#outcome").innerText()));
  assert.match(await page.locator("#outcome").innerText(), /^Imported: snapshot .* with 300 listings/);
  await assertClean(opened);
});

test("an origin that is gone shows within seconds, with what to do; the explorer goes on", async () => {
  const lonely = await Origin.start(200);
  const short = await Mirror.start(lonely, ['ttl="3s"']);
  try {
    const opened = await open(chromium);
    const { page } = opened;
    await page.goto(short.admin);
    await until("a page that is well", async () => (await page.title()).startsWith("All is well"));
    await lonely.kill();
    await until("the trouble in the title", async () => (await page.title()).startsWith("Not well"));
    const findings = page.locator("#health .findings li");
    assert.match(await findings.first().innerText(), /confirmed|origin/i);
    assert.deepEqual(await violations(page), []);
    const explorer = await open(chromium);
    await explorer.page.goto(`${short.url}/explore?state=texas`);
    assert.equal(await explorer.page.locator("#venues tr").count() > 0, true);
    await assertClean(explorer);
    await assertClean(opened);
  } finally {
    await short.kill();
  }
});

test("a server that is gone is said to be gone, and found again", async () => {
  const opened = await open(chromium);
  const { page, noticed } = opened;
  await page.goto(mirror.admin);
  await page.context().setOffline(true);
  const lost = page.locator("#lost");
  await lost.waitFor({ state: "visible" });
  assert.match(await lost.innerText(), /does not answer since/);
  await page.context().setOffline(false);
  await lost.waitFor({ state: "hidden" });
  assert.ok(noticed.every((line) => line.includes("ERR_INTERNET_DISCONNECTED")), noticed.join("\n"));
  noticed.length = 0;
  await assertClean(opened);
});
