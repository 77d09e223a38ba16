// The public pages in a browser.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { SCHEMES, WIDTHS, assertClean, browser, open, tooWide, violations } from "./looks.mjs";
import { hostileOrigin } from "./hostile.mjs";
import { Mirror, Origin, gated, listening, until } from "./servers.mjs";

/** @type {any} */
let chromium;
/** @type {Origin} */
let origin;
/** @type {Mirror} */
let mirror;

before(async () => {
  chromium = await browser();
  origin = await Origin.start(1500);
  mirror = await Mirror.start(origin);
});

after(async () => {
  await chromium?.close();
  await mirror?.kill();
  await origin?.kill();
});

/** @param {string} query */
const list = async (query) => (await fetch(`${mirror.url}/api/listings.json${query}`)).json();

/**
 * The names in the table.
 * @param {any} page
 * @returns {Promise<string[]>}
 */
const names = (page) => page.locator("#venues tr th").allTextContents();

/** @param {{ items: { name: string }[] }} of */
const namesOf = (of) => of.items.map((item) => item.name);

/**
 * How many venues are on the map.
 * @param {any} page
 * @returns {Promise<number>}
 */
const dots = (page) => page.locator("#map .dot").count();

/** @param {any} page */
const ready = (page) => page.locator("body.live").waitFor();

for (const path of ["/", "/docs", "/explore", "/explore?state=texas&page=2", "/explore?q=golf&near=30.27,-97.74&radius=900&sort=name", "/embed?state=texas"]) {
  for (const colorScheme of SCHEMES) {
    for (const width of WIDTHS) {
      test(`${path} is accessible and fits, ${colorScheme}, ${width} pixels wide`, async () => {
        const opened = await open(chromium, { colorScheme, viewport: { width, height: 800 } });
        const answer = await opened.page.goto(`${mirror.url}${path}`, { waitUntil: "networkidle" });
        assert.equal(answer.status(), 200);
        assert.deepEqual(await violations(opened.page), []);
        assert.deepEqual(await tooWide(opened.page), []);
        await assertClean(opened);
      });
    }
  }
}

test("the front page shows counts, the credit, and examples that work as they stand", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(mirror.url);
  const text = await page.locator("main").innerText();
  assert.match(text, /1,500/);
  assert.match(await page.locator("body").innerText(), /CC.BY/);
  const curl = /curl\b[^\n]*?'?(http:\/\/127\.0\.0\.1[^\s'"]+)/.exec(text);
  assert.ok(curl, `there is an example with curl: ${text}`);
  assert.equal((await fetch(curl[1])).status, 200);
  await assertClean(opened);
});

test("the front page shows the age of the data, and its files with rows and sizes, beside the numbers", async () => {
  const opened = await open(chromium, { viewport: { width: 1280, height: 800 } });
  const { page } = opened;
  await page.goto(mirror.url);
  const data = page.locator("section.data");
  assert.match(await data.locator(".confirmed").innerText(), /^Confirmed \d{4}-\d\d-\d\d [\d:]+ UTC \((now|.* ago)\)$/);
  const rows = await data.locator("tbody tr").evaluateAll((/** @type {HTMLTableRowElement[]} */ all) =>
    all.map((row) => [row.querySelector("a")?.textContent, ...[...row.querySelectorAll("td")].map((cell) => cell.textContent)]));
  assert.equal(rows.length, 5);
  for (const [name, count, size] of rows) {
    assert.equal(count, "1,500", name);
    const bytes = (await (await fetch(`${mirror.url}/dumps/${name}`)).arrayBuffer()).byteLength;
    const shown = Number(/^([\d.]+) KiB$/.exec(size)?.[1] ?? Number(/^([\d.]+) MiB$/.exec(size)?.[1]) * 1024) * 1024;
    assert.ok(Math.abs(shown - bytes) < bytes / 10, `${name}: ${size} for ${bytes} bytes`);
  }
  const box = await data.boundingBox();
  assert.ok(box && box.y + box.height <= 800, "all of it is seen without scrolling");
  await assertClean(opened);
});

for (const width of [320, 375]) {
  test(`examples fit their frames and are copied, ${width} pixels wide`, async () => {
    const opened = await open(chromium, { viewport: { width, height: 800 }, permissions: ["clipboard-read", "clipboard-write"] });
    const { page } = opened;
    await page.goto(mirror.url);
    for (const example of await page.locator("figure.example").all()) {
      const [wide, high] = await example.locator("pre").evaluate((/** @type {HTMLElement} */ text) =>
        [text.scrollWidth > text.clientWidth, text.scrollHeight > text.clientHeight]);
      assert.ok(!wide && !high, "no part of it is hidden");
      await example.locator("button").click();
      await until("the copy", async () => (await example.locator("button").innerText()) === "Copied");
      assert.equal(await page.evaluate(() => navigator.clipboard.readText()), await example.locator("code").textContent());
    }
    assert.equal(await page.locator("figure.example").count(), 3);
    assert.deepEqual(await tooWide(page), []);
    await assertClean(opened);
  });
}

test("without a script no button is dead, and examples can be read all the same", async () => {
  const opened = await open(chromium, { javaScriptEnabled: false, viewport: { width: 320, height: 800 } });
  for (const path of ["/", "/explore"]) {
    await opened.page.goto(`${mirror.url}${path}`);
    const buttons = await opened.page.locator("button:visible").evaluateAll((/** @type {HTMLButtonElement[]} */ all) => all.map((one) => one.type));
    assert.deepEqual(buttons, ["submit"], path);
  }
  await opened.page.goto(mirror.url);
  assert.deepEqual(await tooWide(opened.page), []);
  await assertClean(opened);
});

test("before the first snapshot the front page shows the progress, and then the data by itself", async () => {
  const gate = await gated(origin);
  const early = await Mirror.start(gate, [], false);
  try {
    await until("the crawl has begun", async () => (await early.status()).origin.pass?.of > 0);
    for (const colorScheme of SCHEMES) {
      for (const javaScriptEnabled of [true, false]) {
        const opened = await open(chromium, { colorScheme, javaScriptEnabled, viewport: { width: 320, height: 800 } });
        await opened.page.goto(early.url);
        assert.match(await opened.page.locator("main").innerText(), /[\d,]+ of [\d,]+ pages are here/);
        assert.ok(await opened.page.locator("progress").isVisible());
        assert.deepEqual(await tooWide(opened.page), []);
        if (javaScriptEnabled) assert.deepEqual(await violations(opened.page), []);
        await assertClean(opened);
      }
    }
    const opened = await open(chromium);
    await opened.page.goto(early.url);
    gate.open();
    await opened.page.getByText("1,500 venues").waitFor();
    await assertClean(opened);
  } finally {
    await early.kill();
    gate.kill();
  }
});

test("the front page needs no script and less than 50 kB", async () => {
  const opened = await open(chromium, { javaScriptEnabled: false });
  let bytes = 0;
  opened.page.on("response", async (/** @type {any} */ answer) => {
    const { responseBodySize, responseHeadersSize } = await answer.request().sizes();
    bytes += responseBodySize + responseHeadersSize;
  });
  await opened.page.goto(mirror.url, { waitUntil: "networkidle" });
  assert.match(await opened.page.locator("main").innerText(), /1,500/);
  assert.ok(bytes > 2000 && bytes < 50000, `${bytes} bytes were transferred`);
  await assertClean(opened);
});

test("a filter shows the API's answer, and back and forward lead through what was seen", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(`${mirror.url}/explore`);
  await ready(page);
  const all = await names(page);
  const { items: [first] } = await list("");
  const sport = first.sport;
  await page.selectOption("#sport", sport);
  const wanted = await list(`?sport=${sport}`);
  await until("the list of the sport", async () => JSON.stringify(await names(page)) === JSON.stringify(namesOf(wanted)));
  assert.equal(new URL(page.url()).search, `?sport=${sport}`);
  assert.match(await page.locator("#summary").innerText(), new RegExp(`^${wanted.total.toLocaleString("en-US")} venue`));
  assert.ok(wanted.total_pages > 1, "the sport has a second page");
  await page.click("#next");
  const second = namesOf(await list(`?sport=${sport}&page=2`));
  await until("the second page", async () => JSON.stringify(await names(page)) === JSON.stringify(second));
  assert.equal(new URL(page.url()).search, `?sport=${sport}&page=2`);
  await page.goBack();
  await until("the first page again", async () => JSON.stringify(await names(page)) === JSON.stringify(namesOf(wanted)));
  await page.goBack();
  await until("all venues again", async () => JSON.stringify(await names(page)) === JSON.stringify(all));
  await page.goForward();
  await until("the sport again", async () => (await page.inputValue("#sport")) === sport);
  await assertClean(opened);
});

test("a link to a state shows the same without a script, but the map", async () => {
  const opened = await open(chromium, { viewport: { width: 1280, height: 900 } });
  const { page } = opened;
  await page.goto(`${mirror.url}/explore`);
  await ready(page);
  const wanted = namesOf(await list("?state=texas"));
  await page.selectOption("#state", "texas");
  await until("the state", async () => JSON.stringify(await names(page)) === JSON.stringify(wanted));
  const plain = await open(chromium, { javaScriptEnabled: false });
  await plain.page.goto(page.url());
  assert.deepEqual(await names(plain.page), wanted);
  assert.equal(await plain.page.inputValue("#state"), "texas");
  assert.ok(await plain.page.locator("#map").isHidden(), "an empty box would be in the way");
  await assertClean(plain);
  await assertClean(opened);
});

test("the map counts where venues are too many, and shows each of them nearer by", async () => {
  const opened = await open(chromium, { viewport: { width: 1280, height: 900 } });
  const { page } = opened;
  /** @type {string[]} */
  const asked = [];
  page.on("request", (/** @type {any} */ request) => asked.push(new URL(request.url()).pathname));
  await page.goto(`${mirror.url}/explore`);
  const counts = page.locator("#map .cell span");
  await until("the counts", async () => (await counts.count()) > 3);
  const sum = (await counts.allTextContents()).reduce((before, text) => before + Number(text), 0);
  assert.ok(sum > 1000 && sum <= 1500, `${sum}`);
  // A click on empty land does nothing: no state is chosen silently.
  const before = page.url();
  await page.locator("#map").click({ position: { x: 300, y: 40 } });
  assert.equal(page.url(), before);
  // Some lie outside of the view, beside it.
  const middle = Math.floor((await counts.count()) / 2);
  await page.locator("#map .cell").nth(middle).dispatchEvent("click");
  await until("single venues", async () => (await dots(page)) > 0);
  assert.ok(asked.every((path) => !path.startsWith("/api/") && path !== "/search.json"), "nothing from the API's window");
  await assertClean(opened);
});

test("the map is moved and zoomed by the keyboard and by the wheel, and names stand at few dots", async () => {
  const opened = await open(chromium, { viewport: { width: 1280, height: 900 }, reducedMotion: "reduce" });
  const { page } = opened;
  await page.goto(`${mirror.url}/explore?near=30.27,-97.74&radius=30`);
  await until("the names", async () => (await page.locator("#map .name").count()) > 0);
  const far = () => page.locator("#map .around").evaluate((/** @type {Element} */ circle) => circle.getBoundingClientRect().width);
  const before = await far();
  await page.locator("#map").focus();
  await page.keyboard.press("+");
  await until("the zoom of the keyboard", async () => (await far()) > before * 1.5);
  await page.locator("#map").hover();
  await page.mouse.wheel(0, 400);
  await until("the zoom of the wheel", async () => (await far()) < before * 1.4);
  const [name] = await page.locator("#map .name").allTextContents();
  assert.ok((await names(page)).includes(name), `${name} is the name of a venue`);
  await assertClean(opened);
});

test("a dot opens a popup that leads to the venue", async () => {
  const opened = await open(chromium, { viewport: { width: 1280, height: 900 }, reducedMotion: "reduce" });
  const { page } = opened;
  await page.goto(`${mirror.url}/explore?near=30.27,-97.74&radius=30`);
  await until("the dots", async () => (await dots(page)) > 0);
  await page.locator("#map .dot").last().dispatchEvent("click");
  const link = page.locator("#map .leaflet-popup a[href*='venues/']");
  const name = await link.innerText();
  assert.deepEqual(await violations(page), []);
  await link.click();
  await page.waitForURL(/\/venues\/\d+$/);
  assert.equal(await page.locator("h1").innerText(), name);
  await assertClean(opened);
});

test("the finder answers while one types, and forgets nothing else that is chosen", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(`${mirror.url}/explore?state=texas`);
  await ready(page);
  const { items: [first] } = await list("?state=texas");
  const word = first.name.split(" ")[0];
  /** @type {string[]} */
  const asked = [];
  page.on("request", (/** @type {any} */ request) => {
    const { pathname } = new URL(request.url());
    if (!pathname.startsWith("/favicon")) asked.push(pathname);
  });
  await page.locator("#q").pressSequentially(word, { delay: 30 });
  const found = async () => (await fetch(`${mirror.url}/search.json?q=${encodeURIComponent(word)}&state=texas`)).json();
  const wanted = (await found()).items.map((/** @type {any} */ hit) => hit.listing.name);
  assert.ok(wanted.length > 0);
  await until("what was typed", async () => JSON.stringify(await names(page)) === JSON.stringify(wanted));
  assert.equal(new URL(page.url()).search, `?q=${encodeURIComponent(word)}&state=texas`);
  assert.match(await page.locator("#summary").innerText(), new RegExp(`for .${word}., Texas`));
  const pages = asked.filter((path) => path !== "/explore/points.json");
  assert.deepEqual(pages, ["/explore"], "one page for what was typed without a pause, and nothing from the API's window");
  assert.ok(asked.length <= 2, "and once the points of a list with more than one page");
  const plain = await open(chromium, { javaScriptEnabled: false });
  await plain.page.goto(page.url());
  assert.deepEqual(await names(plain.page), wanted, "the same without a script");
  assert.equal(await plain.page.inputValue("#q"), word);
  await assertClean(plain);
  await assertClean(opened);
});

test("the nearest venues are found by the browser's position, and the map shows where", async () => {
  const opened = await open(chromium, { permissions: ["geolocation"], geolocation: { latitude: 30.2672, longitude: -97.7431 } });
  const { page } = opened;
  await page.goto(`${mirror.url}/explore`);
  await ready(page);
  const circles = () => page.locator("#map .around").count();
  assert.equal(await circles(), 0);
  await page.click("#locate");
  await page.waitForURL(/near=30.267%2C-97.743/);
  const answer = await (await fetch(`${mirror.url}/search.json?near=30.267,-97.743`)).json();
  const wanted = answer.items.map((/** @type {any} */ hit) => hit.listing.name);
  await until("the nearest", async () => JSON.stringify(await names(page)) === JSON.stringify(wanted));
  assert.equal(await circles(), 1);
  if (wanted.length > 0) assert.match(await page.locator("#venues .distance").first().innerText(), /^[0-9.]+ mi$/);
  assert.equal(await page.locator("#locate").getAttribute("aria-pressed"), "true");
  await page.click("#locate");
  await until("all again", async () => (await circles()) === 0);
  await assertClean(opened);
});

test("venues are sorted across all pages", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(`${mirror.url}/explore?state=texas`);
  await ready(page);
  await page.selectOption("#sort", "name");
  const all = [];
  for (let at = 1, last = 1; at <= last; at += 1) {
    const answer = await list(`?state=texas&per_page=100&page=${at}`);
    [last] = [answer.total_pages, all.push(...namesOf(answer))];
  }
  const sorted = all.map((name) => name.toLowerCase()).sort();
  await until("the order", async () => (await names(page)).map((name) => name.toLowerCase()).join() === sorted.slice(0, 50).join());
  await page.click("#next");
  await until("the next page", async () => (await names(page)).map((name) => name.toLowerCase()).join() === sorted.slice(50, 100).join());
  await assertClean(opened);
});

test("a dot and its row light each other", async () => {
  const opened = await open(chromium, { viewport: { width: 1400, height: 900 } });
  const { page } = opened;
  await page.goto(`${mirror.url}/explore?near=30.27,-97.74&radius=30`);
  await until("the dots", async () => (await dots(page)) > 0);
  await page.locator("#venues tr[data-at]").first().hover();
  await page.locator("#map path.lit").waitFor({ state: "attached" });
  await page.locator("h1").hover();
  await page.locator("#map path.lit").waitFor({ state: "detached" });
  await page.locator("#map .dot").last().dispatchEvent("mouseover");
  await until("the row of the dot", async () => (await page.locator("#venues tr.lit").count()) === 1);
  await assertClean(opened);
});

test("another site frames the widget, and nothing else of ours", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(`${mirror.url}/explore?state=texas&sort=rating`);
  await ready(page);
  const snippet = await page.locator("#widget").textContent();
  assert.equal(/src="([^"]+)"/.exec(snippet)?.[1], `${mirror.url}/embed?state=texas&sort=rating`);
  const policy = async (/** @type {string} */ path) => (await fetch(`${mirror.url}${path}`, { headers: { Accept: "text/html" } })).headers.get("content-security-policy");
  assert.match(await policy("/embed") ?? "", /frame-ancestors \*$/);
  for (const path of ["/", "/explore", "/docs"]) assert.match(await policy(path) ?? "", /frame-ancestors 'none'$/);
  const frame = await open(chromium, { viewport: { width: 280, height: 480 } });
  await frame.page.goto(`${mirror.url}/embed?state=texas&sort=rating`);
  assert.deepEqual(await tooWide(frame.page), []);
  const { total } = await list("?state=texas");
  assert.equal(await frame.page.locator(".found li").count(), 10);
  assert.match(await frame.page.locator("footer").innerText(), new RegExp(`All ${total}, with filters`));
  await assertClean(frame);
  await assertClean(opened);
});

for (const width of [320, 1280]) {
  test(`on a page of another site the widget shows venues and credit at once, ${width} pixels wide`, async () => {
    const opened = await open(chromium, { viewport: { width, height: 900 } });
    const { page } = opened;
    await page.goto(`${mirror.url}/explore?state=texas`);
    await ready(page);
    const snippet = await page.locator("#widget").textContent();
    const body = `<!DOCTYPE html><html lang="en"><meta name="viewport" content="width=device-width"><title>City</title>${snippet}</html>`;
    const city = await listening(createServer((_, answer) => answer.writeHead(200, { "content-type": "text/html" }).end(body)));
    await page.goto(city.url, { waitUntil: "networkidle" });
    const frame = page.frames()[1];
    await frame.locator(".found").waitFor();
    const [credit, ...shown] = await frame.evaluate(() => ["footer", "h1", "#map", ".found li:nth-child(2)"].map((selector) => {
      const { top, bottom } = /** @type {Element} */ (document.querySelector(selector)).getBoundingClientRect();
      return { top, bottom, most: innerHeight };
    }));
    await frame.locator("#map .state").first().waitFor({ state: "attached" });
    assert.ok(credit.bottom <= credit.most, "the credit is seen without scrolling");
    assert.ok(shown.every(({ top, bottom }) => top >= 0 && bottom <= credit.top), "and so are the first venues");
    await frame.locator(".found li").last().scrollIntoViewIfNeeded();
    assert.ok(await frame.locator(".credit").isVisible());
    assert.deepEqual([...await tooWide(frame), ...await tooWide(page)], []);
    await assertClean(opened);
    city.kill();
  });
}

test("a widget has the colours and the title that its site asks for, ratings, and pages", async () => {
  for (const [colorScheme, theme, paper] of /** @type {const} */ ([["light", "dark", "rgb(18, 23, 22)"], ["dark", "light", "rgb(251, 250, 246)"], ["dark", "auto", "rgb(18, 23, 22)"]])) {
    const opened = await open(chromium, { colorScheme, viewport: { width: 320, height: 480 } });
    const { page } = opened;
    await page.goto(`${mirror.url}/embed?state=texas&theme=${theme}&title=${encodeURIComponent("<b>Ours</b>")}`);
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), paper, theme);
    assert.match(await page.locator("h1").innerText(), /^<b>Ours<\/b> \d+ venues, Texas$/);
    assert.ok((await page.locator(".found .rating").count()) > 0);
    const first = await page.locator(".found a").allTextContents();
    assert.equal(first.length, 10);
    await page.locator("#next").click();
    await page.waitForURL(/page=2/);
    const second = await page.locator(".found a").allTextContents();
    const { items } = await list("?state=texas");
    assert.deepEqual([...first, ...second], items.slice(0, 20).map((/** @type {any} */ item) => item.name.trim()));
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), paper, "the next page looks the same");
    assert.deepEqual(await violations(page), []);
    assert.deepEqual(await tooWide(page), []);
    await assertClean(opened);
  }
});

for (const [width, height] of [[280, 480], [320, 480], [640, 300]]) {
  test(`the credit of a widget is in sight at any time, ${width} x ${height}`, async () => {
    const opened = await open(chromium, { viewport: { width, height } });
    const { page } = opened;
    await page.goto(`${mirror.url}/embed?near=30.27,-97.74&radius=900`);
    const credit = page.locator("footer .credit");
    const inSight = async () => {
      const box = await credit.boundingBox();
      return box !== null && box.y >= 0 && box.y + box.height <= height && box.height < height / 3;
    };
    assert.match(await credit.innerText(), /CC.BY/);
    assert.ok(await inSight(), "at the start");
    await page.evaluate(() => window.scrollTo(0, 150));
    assert.ok(await inSight(), "in between");
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
    assert.ok(await inSight(), "at the end");
    const [last, edge] = await page.evaluate(() => ["main", "footer"].map((name) => document.querySelector(name)?.getBoundingClientRect()));
    assert.ok(last.bottom <= edge.top + 1, "nothing stays below it");
    assert.deepEqual(await violations(page), []);
    assert.deepEqual(await tooWide(page), []);
    await assertClean(opened);
  });
}

test("the map around a place shows the circle and little else, and comes and goes with it", async () => {
  const opened = await open(chromium, { reducedMotion: "reduce" });
  const { page } = opened;
  const near = "?near=30.27,-97.74&radius=20";
  await page.goto(`${mirror.url}/explore${near}`);
  await ready(page);
  const circle = page.locator("#map .around");
  await circle.waitFor();
  const [high, whole] = await page.evaluate(() => ["#map .around", "#map"].map((one) => document.querySelector(one)?.getBoundingClientRect().height ?? 0));
  assert.ok(high / whole > 0.4 && high / whole <= 1, `the circle takes ${high} of the map's ${whole} pixels`);
  const total = (await (await fetch(`${mirror.url}/search.json${near}`)).json()).total;
  assert.equal(await page.locator("#summary").innerText(), `${total} venue${total === 1 ? "" : "s"} within 12\u00a0mi of 30.27, -97.74`);
  const order = () => page.locator("#sort option").first().innerText();
  assert.equal(await order(), "Nearest");
  await page.click("#locate");
  await until("the circle is gone", async () => (await circle.count()) === 0);
  await until("another order is named", async () => (await order()) === "Best match");
  await page.goBack();
  await until("the circle is back", async () => (await circle.count()) === 1);
  await assertClean(opened);
});

test("cities of one name are told apart, and a name in the place of a slug leads to the slug", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(`${mirror.url}/explore`);
  await ready(page);
  const shown = await page.locator("#cities option").evaluateAll((/** @type {HTMLOptionElement[]} */ all) => all.map((one) => one.value));
  assert.ok(shown.length > 100, `${shown.length} cities are suggested`);
  assert.deepEqual(shown.filter((name, at) => shown.indexOf(name) !== at), []);
  // Several states begin so.
  await page.goto(`${mirror.url}/explore?state=New`);
  await ready(page);
  assert.match(await page.locator("#empty").innerText(), /Remove a word or a filter/);
  assert.ok(await page.locator("#pager").isHidden(), "there is one page");
  await page.locator("#hint a", { hasText: "New York" }).click();
  await page.waitForURL(/state=new-york$/);
  assert.ok(await page.locator("#hint").isHidden());
  for (const written of ["Texas", "TX"]) {
    await page.goto(`${mirror.url}/explore?state=${written}`);
    assert.match(await page.locator("#summary").innerText(), /venues, Texas$/, written);
    assert.ok(await page.locator("#hint").isHidden(), written);
  }
  await page.goto(`${mirror.url}/explore?state=Texas&city=Columbia`);
  const meant = await page.locator("#hint a").allTextContents();
  assert.equal(new Set(meant).size, meant.length, `each is named once: ${meant}`);
  await assertClean(opened);
});

test("a city is written by its name, and a place with a distance in miles, with a script and without one", async () => {
  const { total } = await list("?city=austin");
  for (const javaScriptEnabled of [true, false]) {
    const opened = await open(chromium, { javaScriptEnabled });
    const { page } = opened;
    await page.goto(`${mirror.url}/explore`);
    if (javaScriptEnabled) await ready(page);
    await page.fill("#city", "Austin");
    await page.press("#city", "Enter");
    await until("the city", async () => (await page.locator("#summary").innerText()).startsWith(`${total} venue`));
    await page.fill("#city", "");
    await page.fill("#near", "austin");
    await page.selectOption("#radius", { label: "25 miles" });
    await page.press("#near", "Enter");
    await until("the place", async () => /within 25.mi of Austin/.test(await page.locator("#summary").innerText()));
    assert.match(await page.locator("#venues .distance").first().innerText(), /^[0-9.]+ mi$/);
    await assertClean(opened);
  }
});

test("without a script the list is as wide as the page", async () => {
  const opened = await open(chromium, { javaScriptEnabled: false, viewport: { width: 1280, height: 800 } });
  for (const [path, list] of [["/explore?near=austin", ".results"], ["/embed?near=austin", ".list"]]) {
    await opened.page.goto(`${mirror.url}${path}`);
    const [inner, outer] = [await opened.page.locator(list).boundingBox(), await opened.page.locator("main").boundingBox()];
    assert.ok(inner.width > 0.8 * outer.width, `${path}: ${inner.width} of ${outer.width}`);
  }
  await assertClean(opened);
});

test("what was chosen offline is shown as soon as there is a connection", async () => {
  const { total } = await list("?state=texas");
  const opened = await open(chromium);
  const { page, noticed } = opened;
  await page.goto(`${mirror.url}/explore`);
  await ready(page);
  await page.context().setOffline(true);
  await page.selectOption("#state", "texas");
  await until("the notice", async () => /offline/.test(await page.locator("#notice").innerText()));
  await page.context().setOffline(false);
  await until("the state", async () => (await page.locator("#summary").innerText()).startsWith(`${total} venue`));
  assert.ok(await page.locator("#notice").isHidden());
  assert.ok(noticed.every((line) => line.includes("ERR_INTERNET_DISCONNECTED")), noticed.join("\n"));
  noticed.length = 0;
  await assertClean(opened);
});

test("what means nothing is said and never an error, and the match is marked", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(`${mirror.url}/explore?page=0&radius=5&q=${"golf ".repeat(12)}`);
  const hint = await page.locator("#hint").innerText();
  assert.match(hint, /Left out: radius .5./);
  assert.match(hint, /Left out: page .0./);
  await page.goto(`${mirror.url}/explore?q=golf`);
  assert.match(await page.title(), /^\d+ venues for .golf/, "the history tells searches apart");
  assert.match(await page.locator("#venues mark").first().innerText(), /^golf/i);
  for (const written of ["Austn", "austin texas", "Austin TX", "Austin, TX, USA", "austin texxas", "near Austin City", "Austin, Tex. 78701", "1 Main St, Austin, T.X."]) {
    await page.goto(`${mirror.url}/explore?near=${encodeURIComponent(written)}`);
    assert.match(await page.locator("#summary").innerText(), /within 31.mi of Austin/, written);
  }
  await page.goto(`${mirror.url}/explore?near=Paris,+France`);
  assert.match(await page.locator("#hint").innerText(), /there is no such place/, "of another country");
  await page.goto(`${mirror.url}/explore?near=Atlantis`);
  assert.match(await page.locator("#hint").innerText(), /there is no such place/);
  assert.equal(await page.locator("#near").inputValue(), "Atlantis", "it can be corrected");
  for (const [written, meant] of [["ft worth tx", "Fort Worth"], ["30.27 -97.74", "30.27, -97.74"]]) {
    await page.goto(`${mirror.url}/explore?near=${encodeURIComponent(written)}`);
    assert.ok((await page.locator("#summary").innerText()).endsWith(`of ${meant}`), written);
  }
  await page.goto(`${mirror.url}/explore?sport=Golf&state=Texas&sort=rating`);
  assert.match(await page.locator("#summary").innerText(), /^\d+ venues, Golf, Texas$/);
  assert.match(await page.locator("#downloads").innerText(), /not in this order/);
  await assertClean(opened);
});

test("on a phone a venue is in sight, and the choices open and stay open", async () => {
  for (const javaScriptEnabled of [true, false]) {
    const opened = await open(chromium, { javaScriptEnabled, viewport: { width: 375, height: 667 } });
    const { page } = opened;
    await page.goto(`${mirror.url}/explore`);
    const first = await page.locator("#venues tr").first().boundingBox();
    assert.ok(first.y + first.height < 667, `the first venue ends at ${first.y + first.height}`);
    assert.equal(await page.locator("#state").isVisible(), false);
    await page.locator("#more").focus();
    await page.keyboard.press("Space");
    assert.ok(page.url().endsWith("/explore"), "to look at the choices chooses nothing");
    await page.selectOption("#state", "ohio");
    await page.locator("#filters button[type=submit]").click();
    await page.waitForURL(/state=ohio/);
    if (javaScriptEnabled) {
      assert.equal(await page.locator("#state").isVisible(), true, "what was opened stays open");
    }
    // A page that comes anew, by a link or a form without a script, has venues in sight and says what is chosen.
    if (javaScriptEnabled) await page.reload();
    const chosen = await page.locator("#venues tr").first().boundingBox();
    assert.ok(chosen.y + chosen.height < 667, `the first venue ends at ${chosen.y + chosen.height}`);
    assert.match(await page.locator("#summary").innerText(), /Ohio/);
    await assertClean(opened);
  }
});

test("without a script the form filters, too", async () => {
  const opened = await open(chromium, { javaScriptEnabled: false });
  const { page } = opened;
  await page.goto(`${mirror.url}/explore`);
  await page.selectOption("#state", "ohio");
  await page.locator("#filters button[type=submit]").click();
  await page.waitForURL(/state=ohio/);
  assert.deepEqual(await names(page), namesOf(await list("?state=ohio")));
  await assertClean(opened);
});

test("the address of the request can be copied, and answers what is shown", async () => {
  const opened = await open(chromium, { permissions: ["clipboard-read", "clipboard-write"] });
  const { page } = opened;
  await page.goto(`${mirror.url}/explore?state=texas`);
  await ready(page);
  const copy = page.locator("button[data-copies=api-url]");
  await copy.click();
  await until("the copy", async () => (await copy.innerText()) === "Copied");
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(copied, `${mirror.url}/api/listings.json?state=texas`);
  const answer = await (await fetch(copied)).json();
  assert.deepEqual(namesOf(answer), await names(page));
  await assertClean(opened);
});

test("everything on the explorer is reached by the keyboard", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(`${mirror.url}/explore`);
  await ready(page);
  await page.keyboard.press("Tab");
  assert.match(await page.locator(":focus").innerText(), /^Skip/);
  /** @type {Set<string>} */
  const reached = new Set();
  for (let nth = 0; nth < 40; nth += 1) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => document.activeElement?.id ?? ""));
    const outline = await page.evaluate(() => {
      const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(document.activeElement ?? document.body);
      return `${outlineStyle} ${outlineWidth} ${boxShadow}`;
    });
    assert.notEqual(outline, "none 0px none", "what has the focus shows it");
    if (reached.has("sport") && reached.has("state") && reached.has("city")) break;
  }
  assert.ok(["sport", "state", "city"].every((id) => reached.has(id)), [...reached].join(" "));
  await assertClean(opened);
});

test("the reference of the API needs no script and little more than its own bytes, and names every operation", async () => {
  const opened = await open(chromium, { javaScriptEnabled: false, viewport: { width: 320, height: 800 } });
  const { page } = opened;
  /** @type {string[]} */
  const loaded = [];
  page.on("request", (/** @type {any} */ request) => loaded.push(request.url()));
  await page.goto(`${mirror.url}/docs`, { waitUntil: "networkidle" });
  const { paths } = await (await fetch(`${mirror.url}/openapi.json`)).json();
  const shown = await page.locator("h3 code").allTextContents();
  assert.deepEqual(shown.sort(), Object.keys(paths).map((path) => `GET ${path}`).sort());
  assert.ok(loaded.every((url) => !url.includes("swagger")), "the form comes when somebody asks for it");
  assert.ok(await page.locator("#try").isHidden());
  assert.deepEqual(await tooWide(page), []);
  await assertClean(opened);
});

test("the documentation shows every operation of the description, and opens one", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(`${mirror.url}/docs`, { waitUntil: "networkidle" });
  await page.click("#try");
  await page.locator(".opblock").first().waitFor();
  const { paths } = await (await fetch(`${mirror.url}/openapi.json`)).json();
  const shown = (await page.locator(".opblock-summary-path").allInnerTexts())
    .map((/** @type {string} */ path) => path.replaceAll("\u200b", "").trim());
  assert.deepEqual([...new Set(shown)].sort(), Object.keys(paths).sort());
  await page.locator(".opblock-summary-control").first().click();
  await page.locator(".opblock-body .responses-inner").first().waitFor();
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(await tooWide(page), []);
  await assertClean(opened);
});

test("groups of operations have their names in words, and not letter by letter, 375 pixels wide", async () => {
  const opened = await open(chromium, { viewport: { width: 375, height: 800 } });
  const { page } = opened;
  await page.goto(`${mirror.url}/docs`);
  await page.click("#try");
  await page.waitForSelector(".opblock-tag");
  for (const name of await page.locator(".opblock-tag > span").all()) {
    const box = await name.boundingBox();
    assert.ok(box && box.width > 190, `${await name.innerText()} is ${box?.width} wide`);
  }
  await assertClean(opened);
});

test("the viewer has the page's font and edge, and tries a request without filters, under any name of the server", async () => {
  const opened = await open(chromium);
  const { page, noticed } = opened;
  await page.goto(`${mirror.url.replace("127.0.0.1", "localhost")}/docs`, { waitUntil: "networkidle" });
  await page.click("#try");
  await page.locator(".opblock").first().waitFor();
  const [own, viewers] = await page.evaluate(() => [".top a", "#viewer .title"].map((selector) => {
    const element = /** @type {Element} */ (document.querySelector(selector));
    return [getComputedStyle(element).fontFamily, Math.round(element.getBoundingClientRect().left)];
  }));
  assert.deepEqual(viewers, own);
  await page.locator(".opblock-summary-control").first().click();
  await page.locator(".try-out__btn").click();
  const filled = await page.locator(".opblock-body .parameters input[type=text]").evaluateAll((inputs) =>
    inputs.map((input) => /** @type {HTMLInputElement} */ (input).value).filter((value) => value !== ""));
  assert.deepEqual(filled, ["1", "2"], "the default of page, and a small page");
  assert.deepEqual(await violations(page), []);
  await page.locator(".execute").click();
  assert.equal(await page.locator(".live-responses-table .response-col_status").nth(1).innerText(), "200");
  for (const width of [375, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    assert.deepEqual(await violations(page), [], `with an answer, ${width} pixels wide`);
  }
  assert.deepEqual(noticed.filter((/** @type {string} */ what) => !what.includes("//localhost:")), []);
  await page.context().close();
});

test("the documentation waits for its turn, and says how long", async () => {
  const opened = await open(chromium);
  const { page, noticed } = opened;
  // The description, and the form itself.
  for (const refused of ["**/openapi.json", "**/swagger-ui*.js"]) {
    let refusals = 1;
    await page.route(refused, (/** @type {any} */ route) => {
      refusals -= 1;
      return refusals < 0 ? route.continue() : route.fulfill({ status: 429, headers: { "Retry-After": "2" }, body: "{}" });
    });
    await page.goto(`${mirror.url}/docs`);
    await page.click("#try");
    await until("the countdown", async () => /Trying again in [12] s/.test(await page.locator("#said").innerText()));
    await page.locator(".opblock").first().waitFor();
    assert.ok(refusals < 0, refused);
    await page.unroute(refused);
  }
  assert.ok(noticed.every((/** @type {string} */ line) => line.includes("429")), noticed.join("\n"));
  await page.context().close();
});

test("a client that asks too much sees how long it has to wait", async () => {
  const strict = await Mirror.start(origin, ["rate_limit.requests_per_minute=2"]);
  try {
    const opened = await open(chromium);
    const { page, noticed } = opened;
    await page.goto(`${strict.url}/explore`);
    await ready(page);
    const notice = page.locator("#notice");
    // Pages have ten times the limit of the API.
    for (let nth = 0; nth < 30 && !(await notice.isVisible()); nth += 1) {
      await page.selectOption("#state", ["texas", "ohio", "florida"][nth % 3]);
      await page.waitForFunction(() => !document.querySelector(".explorer.busy"));
    }
    const left = async () => Number(/Trying again by itself in (\d+) s/.exec(await notice.innerText())?.[1]);
    await until("the notice", async () => (await notice.isVisible()) && (await left()) > 0);
    const seen = await left();
    await until("the countdown", async () => (await left()) < seen);
    // A browser that knows none of our files has the style and the countdown, too; in a frame there is no navigation.
    const fresh = await open(chromium);
    for (const [path, parts] of /** @type {const} */ ([["explore", 2], ["embed", 0]])) {
      await fresh.page.goto(`${strict.url}/${path}`);
      assert.equal(await fresh.page.locator("nav, header").count(), parts);
      const seconds = async () => Number(await fresh.page.locator("[data-seconds]").innerText());
      const first = await seconds();
      await until("the countdown of the page", async () => (await seconds()) < first);
      assert.notEqual(await fresh.page.evaluate(() => getComputedStyle(document.body).margin), "8px");
    }
    await fresh.page.context().close();
    // The browser itself reports an answer of 429.
    assert.ok(noticed.every((line) => line.includes("429")), noticed.join("\n"));
    noticed.length = 0;
    await assertClean(opened);
  } finally {
    await strict.kill();
  }
});

test("a title on the explorer leads to the page of the venue, which has all of the detail", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  await page.goto(`${mirror.url}/explore?state=texas`);
  await ready(page);
  await page.selectOption("#sport", (await list("?state=texas")).items[0].sport);
  await page.waitForFunction(() => !document.querySelector(".explorer.busy"));
  const [first] = await names(page);
  await page.locator("#venues tr th a").first().click();
  await page.waitForURL(/\/venues\/\d+$/);
  assert.equal(await page.locator("h1").innerText(), first.trim());
  const id = /\d+$/.exec(page.url())?.[0];
  const detail = await (await fetch(`${mirror.url}/api/listings/${id}.json`)).json();
  const text = await page.locator("main").innerText();
  for (const words of [detail.phone, detail.address.street, detail.place_id]) assert.ok(text.includes(words), words);
  assert.match(await page.locator("body").innerText(), /CC.BY/);
  const data = JSON.parse(await page.locator('script[type="application/ld+json"]').textContent());
  assert.equal(data.name, detail.name);
  assert.equal(await page.locator("#map .here").count(), typeof detail.lat === "number" ? 1 : 0);
  await assertClean(opened);
});

test("a venue's hours begin with today, and its neighbours are on its map", async () => {
  const opened = await open(chromium);
  const { page } = opened;
  const { items: [{ id }] } = await list("?city=austin");
  await page.goto(`${mirror.url}/venues/${id}`);
  await page.locator(".today").waitFor();
  const today = await page.evaluate(() => new Date().toLocaleDateString("en", { weekday: "long" }));
  assert.equal(await page.locator("dt[data-day]").first().innerText(), today);
  assert.equal(await page.locator("dt[data-day]").count(), 7);
  await until("the neighbours", async () => (await dots(page)) === await page.locator(".found li[data-at]").count());
  assert.match(await page.locator("a", { hasText: "Directions" }).first().getAttribute("href"), /destination=[\d.]+,-[\d.]+$/);
  await page.locator(".summary a", { hasText: "Austin" }).click();
  await page.waitForURL(/explore\?city=austin$/);
  await assertClean(opened);
});

for (const colorScheme of SCHEMES) {
  for (const width of WIDTHS) {
    test(`venues are accessible and fit, whatever the data says, ${colorScheme}, ${width} pixels wide`, async () => {
      const evil = await hostileOrigin();
      const hostile = await Mirror.start(evil);
      try {
        const { items: [venue] } = await list("?state=texas");
        const targets = [`${mirror.url}/venues/${venue.id}`, ...[1, 2, 3, 4].map((id) => `${hostile.url}/venues/${id}`), `${hostile.url}/explore`];
        for (const target of targets) {
          const opened = await open(chromium, { colorScheme, viewport: { width, height: 800 }, reducedMotion: "reduce" });
          opened.page.on("dialog", () => opened.noticed.push(`${target} runs a script of the data`));
          const answer = await opened.page.goto(target, { waitUntil: "networkidle" });
          assert.equal(answer.status(), 200);
          if (target.startsWith(hostile.url) && (await dots(opened.page)) > 0) {
            await opened.page.locator("#map .dot").first().dispatchEvent("click");
            const link = opened.page.locator("#map .leaflet-popup a[href*='venues/']");
            assert.match(await link.innerText(), /^<\/script>/, "a name is text on the map");
            await opened.page.locator("#map .leaflet-popup").waitFor();
          }
          assert.deepEqual(await violations(opened.page), [], target);
          assert.deepEqual(await tooWide(opened.page), [], target);
          await assertClean(opened);
        }
      } finally {
        await hostile.kill();
        evil.kill();
      }
    });
  }
}
