// The scripts of the pages, as far as they are functions of values; a browser tests the rest.

import assert from "node:assert/strict";
import { test } from "node:test";

import { counted, flat, glued, inMinute, lonely, percent, seconds, stateOf, sum, tiles, unit, valued } from "../../src/server/admin/console/words.js";
import { ago } from "../../src/edge/pages/static/age.js";
import { brief, rings, rounded } from "../../src/edge/pages/static/map.js";
import { Refused, queryOf, rendered } from "../../src/edge/pages/static/explore.js";

test("a query has what is chosen, in the finder's order", () => {
  const wish = { sport: "golf", q: "peña 7", near: "1,2", radius: "5", bbox: "", state: "new york", city: "a&b", sort: "name" };
  assert.equal(queryOf(wish), "?q=pe%C3%B1a%207&near=1%2C2&radius=5&sport=golf&state=new%20york&city=a%26b&sort=name");
  assert.equal(queryOf({ q: "", sport: "" }), "");
});

test("neighbouring views of the map are one, which has all of each", () => {
  assert.deepEqual(rounded([-125, 24.4, -66.9, 49.5]), [-128, 16, -64, 64]);
  assert.deepEqual(rounded([-124.9, 24.3, -67, 49.4]), [-128, 16, -64, 64]);
  assert.deepEqual(rounded([-300, -95, 300, 95]), [-180, -90, 180, 90]);
  const [west, south, east, north] = rounded([-97.75, 30.25, -97.7, 30.28]);
  assert.ok(west <= -97.75 && south <= 30.25 && east >= -97.7 && north >= 30.28 && east - west < 0.1);
});

test("a count at the map has few characters", () => {
  assert.deepEqual([1, 950, 1200, 34_000, 1_100_000].map(brief), ["1", "950", "1.2k", "34k", "1.1M"]);
});

test("outlines are steps from corner to corner", () => {
  assert.deepEqual(rings([["Texas", [[-10_000, 3000, 50, -25, 0, 100]]]]), [[[30, -100], [29.75, -99.5], [30.75, -99.5]]]);
});

test("an age is said in words", () => {
  assert.deepEqual([-5, 0, 59, 60, 7200, 200_000].map(ago), ["now", "now", "59 seconds ago", "1 minute ago", "2 hours ago", "2 days ago"]);
});

test("a page that is refused says how long to wait", async () => {
  const refusal = (status, fields = {}) => rendered(new Response("", { status, headers: fields }));
  await assert.rejects(refusal(429, { "Retry-After": "17" }), (error) => error instanceof Refused && error.seconds === 17);
  await assert.rejects(refusal(503), (error) => error instanceof Refused && error.seconds === 5);
  await assert.rejects(refusal(500), (error) => !(error instanceof Refused) && /500/.test(error.message));
  assert.equal(await rendered(new Response("<p>")), "<p>");
});

/** A healthy mirror, as far as the console's words need it. */
const mirror = {
  use: "mirror", findings: [], snapshot: { id: "0123" }, disk: null, replica: null, listings: 5000, hit_ratio: 0.9876,
  confirmed_at: "2026-11-22T11:25:00Z", age_seconds: 112, unconfirmed: false, unhealthy_after_seconds: 900,
  details: { mirrored: 5000, current: 5000, of: 5000 }, cache: { bytes: 1500000, entries: 1 }, memory_bytes: 45e6,
  rate_limit: { store: "local", why: null, requests_per_minute: 60, clients: 1 },
  origin: {
    state: "unchanged", pass: null, eta_seconds: 0, refreshed_at: "2026-11-22T11:26:10Z", next_refresh_seconds: 34,
    budget: { limit: 60, free: 58, paused_seconds: 0, waiting: 0 },
  },
};
const samples = {
  step_seconds: 10, p50_microseconds: [null, 80], p99_microseconds: [null, 2100], not_modified: [null, 20],
  answers: { fresh: [null, 83], stale: [null, 0], origin: [null, 0], refused: [7, 5], error: [null, 0], other: [null, 0] },
};
const NOW = Date.parse("2026-11-22T11:26:52Z");

/** The tile of this name as one line. */
function tile(status, name, history = samples) {
  const found = tiles(status, history, NOW).find((one) => one.name === name);
  return found && [found.value, found.note, found.more].filter(Boolean).join("; ");
}

test("the console's numbers have their units, and one is singular", () => {
  assert.equal(counted(1, "entry"), "1 entry");
  assert.equal(counted(1234, "entry"), "1,234 entries");
  assert.deepEqual([119, 120, 7500, 86400, 172800, 20651].map(seconds), ["119 s", "2 min", "2 h 5 min", "24 h", "2 days", "5 h 44 min"]);
  assert.deepEqual([80.4, 1234, 45000, 3.4e6].map((value) => valued("micros", value)), ["80 µs", "1.2 ms", "45 ms", "3.4 s"]);
  assert.deepEqual([512, 1.5e6].map((value) => valued("bytes", value)), ["512 bytes", "1.5 MB"]);
  assert.deepEqual([0, 0.034, 12345.6].map((value) => valued("perSecond", value)), ["0 /s", "0.03 /s", "12,346 /s"]);
  assert.deepEqual([1, 0.99999].map(percent), ["100 %", "99.9 %"]);
  assert.deepEqual(unit("seconds", 180), { name: "min", size: 60 }, "all ticks of an axis have the unit of its end");
});

test("the console counts over a minute, and gaps stay gaps", () => {
  assert.deepEqual(inMinute([1, 1, 1, 1, 1, 1, null, 1], 10), [1, 2, 3, 4, 5, 6, null, 5]);
  assert.deepEqual(inMinute([7, 8], 60), [7, 8]);
  assert.deepEqual(sum([[1, null, null], [2, 3, null]]), [3, 3, null]);
});

test("what an operator wants to know first is in the console's tiles", () => {
  for (const [name, said] of [
    ["Requests", "8.8 /s; p50 80 µs, p99 2.1 ms"],
    ["Refused (429)", "12 /min; limit: 60 a minute for each client; 1 client counted"],
    ["Hit ratio", "98.7 %; API requests answered without the origin, since the start"],
    ["Age of the data", "112 s; unhealthy above 15 min; 5,000 listings"],
    ["Progress", "Complete; 5,000 of 5,000 details"],
    ["Next refresh", "in 34 s; the last one was 42 s ago"],
    ["Origin", "Answers; no changes at the last refresh; 58 of 60 requests a minute free"],
    ["Memory", "45 MB; cache: 1.5 MB, 1 entry"],
  ]) assert.equal(tile(mirror, name), said);
  const crawling = { ...mirror, details: null, origin: { ...mirror.origin, pass: { done: 55, of: 203 }, eta_seconds: 20651 } };
  assert.match(tile(crawling, "Progress"), /^27\.0 %; 55 of 203 requests; ends in about 5 h 44 min, at \d\d:\d\d$/);
  // The pass that proves the list is nearly through, and 2,998 details are missing.
  const early = { ...crawling, details: { mirrored: 2, current: 2, of: 3000 } };
  assert.match(tile(early, "Progress"), /^0\.0 %; 2 of 3,000 details, 55 of 203 requests; ends in about/);
  const first = { ...crawling, snapshot: null, origin: { ...crawling.origin, refreshed_at: null } };
  assert.equal(tile(first, "Next refresh"), "–; after the first copy");
  const gone = { ...mirror.origin, state: "could-not-be-asked", next_refresh_seconds: 0 };
  assert.equal(tile({ ...mirror, origin: gone }, "Next refresh"), "overdue; the last one was 42 s ago");
  assert.equal(tile({ ...mirror, age_seconds: null, unconfirmed: true }, "Age of the data"), "in the future; unhealthy above 15 min; 5,000 listings");
  assert.equal(tile(mirror, "Requests", null), "–; measured every 10 s");
});

test("a replica names the publisher that it follows, and no origin that it has not", () => {
  const replica = {
    ...mirror, use: "replica", origin: { state: "offline", budget: null },
    replica: { url: "s3://bucket/prefix", sequence: 7, behind_seconds: 0, last_poll: "2026-11-22T11:26:49Z", why: null },
  };
  assert.equal(tile(replica, "Follows"), "s3://bucket/prefix; head 7, nothing is missing; the store answered 3 s ago");
  for (const name of ["Origin", "Next refresh", "Progress", "Hit ratio"]) assert.equal(tile(replica, name), undefined);
  replica.replica = { url: "file:///x", sequence: null, behind_seconds: null, last_poll: null, why: "no head" };
  assert.equal(tile(replica, "Follows"), "file:///x; no head yet, not compared yet; the store has not answered yet");
});

test("a sample between gaps is a point, and others are not", () => {
  assert.deepEqual(lonely([1, null, 2, 3, null, 4, null, null, 5]), [0, 5, 8]);
  assert.deepEqual(lonely([]), []);
});

test("a number stays beside its unit", () => {
  assert.equal(glued("p50 40 µs, limit: 1,000 a minute, none in the last 10 s"), "p50\u00a040\u00a0µs, limit: 1,000\u00a0a minute, none in the last 10\u00a0s");
});

test("the state is the server's word, and a first copy that is being made is no trouble", () => {
  const bad = [{ name: "disk-full", unhealthy: true }];
  const first = [{ name: "no-data", unhealthy: true }];
  for (const [status, word] of [
    [mirror, "Healthy"],
    [{ ...mirror, findings: [{ name: "rolled-back", unhealthy: false }] }, "Healthy, but look at this"],
    [{ ...mirror, findings: bad }, "Unhealthy"],
    [{ ...mirror, findings: first, snapshot: null }, "Making the first copy"],
    [{ ...mirror, findings: [...bad, ...first], snapshot: null }, "Unhealthy"],
    [{ ...mirror, findings: first, snapshot: null, use: "offline" }, "Unhealthy"],
  ]) assert.equal(stateOf(status).word, word);
});

test("no fact is left out of the table of facts", () => {
  const value = { a: { b: 1, c: null, d: {} }, e: ["x", "y"], f: [{ g: true }], h: [] };
  assert.deepEqual(flat(value), [["a.b", "1"], ["a.c", "–"], ["a.d", "–"], ["e", "x; y"], ["f.0.g", "true"], ["h", "–"]]);
});
