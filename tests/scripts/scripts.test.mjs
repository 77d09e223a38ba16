// The scripts of the pages, as far as they are functions of values; a browser tests the rest.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { ago } from "../../src/pages/static/age.js";
import { Refused, client, isLink, project, queryOf, ratingOf, wishOf } from "../../src/pages/static/explore.js";

test("places are drawn where the server draws them", () => {
  const places = JSON.parse(readFileSync(new URL("places.json", import.meta.url), "utf8"));
  for (const [name, latitude, longitude, expected] of places) {
    assert.deepEqual(project(latitude, longitude), expected, name);
  }
  assert.equal(project(Number.NaN, 0), null);
});

test("a query and a wish are the same thing", () => {
  const wish = { sport: "golf", state: "new york", city: "a&b", page: 3 };
  assert.equal(queryOf(wish), "?sport=golf&state=new%20york&city=a%26b&page=3");
  assert.deepEqual(wishOf(queryOf(wish)), wish);
  assert.equal(queryOf(wishOf("?utm=1&sport=&page=1")), "");
  for (const page of ["0", "-1", "x", "1e3", ""]) assert.equal(wishOf(`?page=${page}`).page, 1, page);
});

test("only addresses of the web are links", () => {
  assert.ok(isLink("https://venues.example/a"));
  for (const link of ["javascript:alert(1)", "/a", "data:text/html,x", null, undefined, 7]) assert.ok(!isLink(link), String(link));
});

test("a rating is shown with its count, or not at all", () => {
  assert.equal(ratingOf({ id: 1, rating: 4.25, review_count: 1234 }), "4.3 (1,234)");
  assert.equal(ratingOf({ id: 1, rating: 4 }), "4.0");
  assert.equal(ratingOf({ id: 1, rating: null }), "");
});

test("an age is said in words", () => {
  assert.deepEqual([-5, 0, 59, 60, 7200, 200_000].map(ago), ["now", "now", "59 seconds ago", "1 minute ago", "2 hours ago", "2 days ago"]);
});

/** A server that answers what it is told to, and remembers what it was asked. */
function server(...answers) {
  const asked = [];
  const get = async (url, { headers }) => {
    asked.push([url, headers["If-None-Match"] ?? null]);
    const { status, body = null, fields = {} } = answers.shift();
    return new Response(body === null ? null : JSON.stringify(body), { status, headers: fields });
  };
  return { asked, ask: client(get) };
}

const list = { page: 1, per_page: 50, total: 0, total_pages: 0, items: [] };

test("what the client has is asked for conditionally and is not sent again", async () => {
  const { asked, ask } = server(
    { status: 200, body: list, fields: { ETag: 'W/"a"', RateLimit: '"default";r=59;t=60' } },
    { status: 304 },
    { status: 200, body: { ...list, total: 1 }, fields: { ETag: 'W/"b"' } },
    { status: 304 },
  );
  assert.deepEqual(await ask("x"), { list, status: 200, left: "59" });
  assert.deepEqual(await ask("x"), { list, status: 304, left: null });
  assert.equal((await ask("x")).list.total, 1);
  assert.equal((await ask("x")).list.total, 1);
  assert.deepEqual(asked, [["x", null], ["x", 'W/"a"'], ["x", 'W/"a"'], ["x", 'W/"b"']]);
});

test("a client that is refused knows how long to wait", async () => {
  const { ask } = server(
    { status: 429, body: {}, fields: { "Retry-After": "17" } },
    { status: 503, body: {}, fields: {} },
    { status: 500, body: {} },
  );
  await assert.rejects(ask("x"), (error) => error instanceof Refused && error.seconds === 17);
  await assert.rejects(ask("x"), (error) => error instanceof Refused && error.seconds === 5);
  await assert.rejects(ask("x"), (error) => !(error instanceof Refused) && /500/.test(error.message));
});

test("a client that looks around for long does not remember everything", async () => {
  const answers = Array.from({ length: 52 }, (_, nth) => ({ status: 200, body: list, fields: { ETag: `"${nth}"` } }));
  const { asked, ask } = server(...answers);
  for (let nth = 0; nth < 51; nth += 1) await ask(String(nth));
  await ask("0");
  assert.deepEqual(asked.at(-1), ["0", null]);
});
