// The operator's console in a browser.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { SCHEMES, WIDTHS, assertClean, browser, open, tooWide, violations } from "./looks.mjs";
import { Mirror, Origin, until } from "./servers.mjs";

const TOKEN = "0123456789abcdef0123";

/** @type {any} */
let chromium;
/** @type {Origin} */
let origin;
/** @type {Mirror} */
let mirror;

const snapshot = async () => (await fetch(`${mirror.url}/api/sports.json`)).headers.get("mirror-snapshot");
/** @param {any} page */
const outcome = (page) => page.locator("#outcome").innerText();

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
    test(`the console is accessible and fits, ${colorScheme}, ${width} pixels wide`, async () => {
      const opened = await open(chromium, { colorScheme, viewport: { width, height: 800 } });
      await opened.page.goto(mirror.admin);
      await opened.page.locator("#snapshots").waitFor();
      assert.deepEqual(await violations(opened.page), []);
      assert.deepEqual(await tooWide(opened.page), []);
      await assertClean(opened);
    });
  }
}

test("what an operator wants to know in five seconds is there without scrolling", async () => {
  const opened = await open(chromium, { viewport: { width: 1280, height: 720 } });
  const { page } = opened;
  await page.goto(mirror.admin);
  await page.locator("#snapshots").waitFor();
  const status = await mirror.status();
  const seen = await page.evaluate(() => [...document.querySelectorAll("header p, #health, #tiles div")]
    .filter((one) => one.getBoundingClientRect().bottom <= innerHeight).map((one) => one.textContent).join("\n").replaceAll("\u00a0", " "));
  const names = ["Healthy", "up ", "Requests", "Refused (429)", "there is no limit", "Hit ratio", "Age of the data", "300 of 300 details", "Next refresh", "Origin", "Memory"];
  for (const said of [...names, status.version, status.listen[0], status.origin.url]) assert.ok(seen.includes(said), `${said} is not in ${seen}`);
  await assertClean(opened);
});

test("a chart tells its values at the pointer, and by keyboard", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(mirror.admin);
  const [plot, legend] = [page.locator("#plot-requests"), page.locator("#legend-requests")];
  await until("a sample", async () => /hit\s+[\d.]+ \/s/.test(await legend.innerText()));
  assert.match(await legend.innerText(), /^now/);
  await plot.hover();
  await until("the time at the pointer", async () => /^\d\d:\d\d:\d\d/.test(await legend.innerText()));
  await page.locator("h1").hover();
  await until("the newest values", async () => /^now/.test(await legend.innerText()));
  await plot.focus();
  await page.keyboard.press("ArrowLeft");
  const last = await legend.innerText();
  await page.keyboard.press("ArrowLeft");
  assert.match(last, /^\d\d:\d\d:\d\d/);
  assert.notEqual(await legend.innerText(), last);
  const hours = page.getByRole("button", { name: "12 hours" });
  await hours.click();
  assert.equal(await hours.getAttribute("aria-pressed"), "true");
  await assertClean(opened);
});

test("an update leaves focus and open parts where they are, and a hidden tab asks for nothing", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  let asked = 0;
  page.on("request", (/** @type {any} */ request) => { if (request.url().endsWith("/status")) asked += 1; });
  await page.clock.install();
  await page.goto(mirror.admin);
  await page.locator("#facts summary").first().click();
  const pin = page.getByRole("button", { name: /^Pin/ }).first();
  await pin.focus();
  const id = await pin.getAttribute("id");
  const before = asked;
  await until("two updates", async () => {
    await page.clock.runFor(3000);
    return asked >= before + 2;
  });
  assert.equal(await page.evaluate(() => document.activeElement?.id), id);
  assert.ok(await page.locator("#facts details[open] table").isVisible());
  const hide = (/** @type {boolean} */ isHidden) => page.evaluate((/** @type {boolean} */ value) => {
    Object.defineProperty(document, "hidden", { value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
  await hide(true);
  await page.waitForLoadState("networkidle");
  const hidden = asked;
  await page.clock.runFor(60000);
  await page.evaluate(() => fetch("livez").then((answer) => answer.text()));
  assert.equal(asked, hidden);
  await hide(false);
  await until("it asks again", () => asked > hidden);
  await assertClean(opened);
});

test("a pin acts at once; a rollback asks first, takes effect, and is released", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(mirror.admin);
  await page.getByRole("button", { name: /^Pin/ }).first().click();
  await page.getByRole("button", { name: /^Unpin/ }).first().waitFor();
  assert.match(await outcome(page), /is pinned/);
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
  await dialog.locator("#ask-yes").click();
  const release = page.getByRole("button", { name: "Release" }).first();
  await release.waitFor();
  assert.match(await outcome(page), /is current now/);
  assert.notEqual(await snapshot(), newest);
  await release.click();
  await dialog.locator("#ask-yes").click();
  await until("the release", async () => (await snapshot()) === newest);
  await release.waitFor({ state: "detached" });
  await assertClean(opened);
});

test("a bundle can be downloaded and imported", async () => {
  const calm = await Mirror.start(origin, ['ttl="5m"']);
  try {
    // A copy that is confirmed again after the export is newer than the bundle.
    const certificate = async () => (await (await fetch(`${calm.admin}/status`)).json()).snapshot.certificate;
    await until("the copy is certified", async () => (await certificate()) === "full");
    const opened = await open(chromium, { acceptDownloads: true });
    const { page } = opened;
    await page.goto(calm.admin);
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("#bundle")]);
    assert.match(download.suggestedFilename(), /\.gsb$/);
    await page.setInputFiles("#file", await download.path());
    await page.locator("#upload button").click();
    await page.locator("#ask-yes").click();
    await until("the outcome", async () => /Imported|Not /.test(await outcome(page)));
    assert.match(await outcome(page), /^Imported: snapshot .* with 300 listings/);
    await assertClean(opened);
  } finally {
    await calm.kill();
  }
});

test("a token is asked for once, kept by the tab, and never in an address", async () => {
  const guarded = await Mirror.start(origin, [`admin.token="${TOKEN}"`]);
  try {
    const opened = await open(chromium);
    const { page } = opened;
    /** @type {string[]} */
    const addresses = [];
    page.on("request", (/** @type {any} */ request) => addresses.push(request.url()));
    await page.goto(guarded.admin);
    const press = async (/** @type {string} */ token) => {
      await page.getByRole("button", { name: "Refresh now" }).click();
      if (!token) return;
      assert.deepEqual(await violations(page), []);
      await page.fill("#token", token);
      await page.locator("#ask-yes").click();
    };
    await press("wrong");
    await until("the refusal", async () => /The token is wrong/.test(await outcome(page)));
    await press(TOKEN);
    await until("the refresh", async () => /A refresh begins/.test(await outcome(page)));
    await page.reload();
    await press("");
    await until("the refresh without a question", async () => /A refresh begins/.test(await outcome(page)));
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("#bundle").then(() => page.locator("#ask-yes").click())]);
    assert.match(download.suggestedFilename(), /\.gsb$/);
    assert.ok(addresses.every((address) => !address.includes(TOKEN)), addresses.join("\n"));
    opened.noticed.splice(0, opened.noticed.length, ...opened.noticed.filter((line) => !line.includes("403 (Forbidden)")));
    await assertClean(opened);
  } finally {
    await guarded.kill();
  }
});

test("an origin that is gone shows within seconds, with what to do; the explorer goes on", async () => {
  const lonely = await Origin.start(200);
  const short = await Mirror.start(lonely, ['ttl="3s"']);
  try {
    const opened = await open(chromium);
    const { page } = opened;
    await page.goto(short.admin);
    await until("a page that is well", async () => (await page.title()).startsWith("Healthy"));
    await lonely.kill();
    await until("the trouble in the title", async () => (await page.title()).startsWith("Unhealthy"));
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

test("a snapshot that is held back says why, and is taken by a button", async () => {
  const shrinking = await Origin.start(100);
  const small = await Mirror.start(shrinking, ['ttl="3s"']);
  try {
    const opened = await open(chromium, { viewport: { width: 375, height: 812 } });
    const { page } = opened;
    await page.goto(small.admin);
    await shrinking.edit("remove", 60);
    const accept = page.getByRole("button", { name: "Accept the snapshot" }).first();
    await accept.waitFor();
    const held = await page.locator("#snapshots .held").innerText();
    assert.ok(held.includes("60 of 100 listings") && !held.includes("`"), held);
    assert.deepEqual([...await violations(page), ...await tooWide(page)], []);
    await accept.click();
    await page.locator("#ask-yes").click();
    await until("it is current", async () => (await small.status()).listings === 40);
    await assertClean(opened);
  } finally {
    await small.kill();
    await shrinking.kill();
  }
});

test("a server that is gone is said to be gone, and found again", async () => {
  const opened = await open(chromium);
  const { page, noticed } = opened;
  await page.goto(mirror.admin);
  await page.locator("#snapshots").waitFor();
  await page.context().setOffline(true);
  const lost = page.locator("#lost");
  await lost.waitFor({ state: "visible" });
  assert.match(await lost.innerText(), /No answer since \d\d:\d\d:\d\d/);
  await page.context().setOffline(false);
  await lost.waitFor({ state: "hidden" });
  assert.ok(noticed.every((line) => line.includes("ERR_INTERNET_DISCONNECTED")), noticed.join("\n"));
  noticed.length = 0;
  await assertClean(opened);
});
