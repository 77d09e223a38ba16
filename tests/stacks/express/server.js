// The API on Express: numbers by parseInt, slugs compared without case, times without an offset in the server's zone.
// With WINDOW, as in front of Elasticsearch: pages of 50 at most, `total` counts no more results than that, and further
// pages are errors.
const { createHash } = require("node:crypto");
const { readFileSync, statSync } = require("node:fs");
const express = require("express");

const { PORT, BASE, ROWS, FRESH, WINDOW } = process.env;
const reach = Number(WINDOW ?? Infinity);
const most = WINDOW ? 50 : 100;
const app = express();
app.set("query parser", "simple");

let rows = [];
let read = 0;
function venues() {
  const { mtimeMs } = statSync(ROWS);
  if (mtimeMs !== read) {
    rows = JSON.parse(readFileSync(ROWS, "utf8"));
    rows.sort((a, b) => (a.modified < b.modified ? 1 : a.modified > b.modified ? -1 : b.id - a.id));
    read = mtimeMs;
  }
  return rows;
}

function send(res, body, volatile = {}) {
  // res.json answers 304 itself.
  res.set("ETag", `W/"${createHash("sha1").update(JSON.stringify(body)).digest("base64url")}"`);
  res.set("Cache-Control", `public, max-age=${FRESH}`);
  res.json(Array.isArray(body) ? body : { ...body, ...volatile });
}

const last = (value) => (Array.isArray(value) ? value.at(-1) : value);
const fold = (text) => text.trim().toLowerCase();
const columns = { sport: "sport", state: "state_slug", city: "city_slug" };

app.get("/api/listings.json", (req, res) => {
  const page = Math.max(1, Number.parseInt(last(req.query.page), 10) || 1);
  const size = Number.parseInt(last(req.query.per_page), 10);
  const perPage = size >= 1 ? Math.min(most, size) : 50;
  const filters = {};
  let found = venues();
  for (const [name, column] of Object.entries(columns)) {
    const value = last(req.query[name]);
    if (!value) continue;
    filters[name] = value;
    found = found.filter((row) => row[column] === fold(value));
  }
  const since = last(req.query.modified_since);
  if (since) {
    const at = new Date(since).getTime();
    if (Number.isNaN(at)) return res.status(422).json({ errors: [{ param: "modified_since", msg: "Invalid value" }] });
    filters.modified_since = since;
    found = found.filter((row) => Date.parse(row.modified) > at);
  }
  if (page * perPage > reach) {
    return res.status(400).json({ error: `Result window is too large, from + size must be less than or equal to: [${reach}]` });
  }
  const items = found.slice((page - 1) * perPage, page * perPage).map((row) => ({
    id: row.id, name: row.name, url: row.url, city: row.city, state: row.state, sport: row.sport, lat: row.lat, lng: row.lng,
    rating: row.rating, review_count: row.review_count, modified: new Date(row.modified).toISOString(),
  }));
  const total = Math.min(found.length, reach);
  return send(res, {
    "@context": "https://schema.org", license: "https://creativecommons.org/licenses/by/4.0/", attribution: "Venues",
    docs: `${BASE}/docs`, "@type": "ItemList", page, per_page: perPage, total, total_pages: Math.ceil(total / perPage), filters, items,
  }, { generated_at: new Date().toISOString() });
});

app.get("/api/listings/:id.json", (req, res) => {
  const id = Number.parseInt(req.params.id, 10);
  const row = venues().find((one) => one.id === id);
  return row ? send(res, row.detail) : res.status(404).json({ error: "Not Found" });
});

const terms = { sports: ["sport", "sport_name", "sport"], states: ["state_slug", "state", "state"], cities: ["city_slug", "city", "city"] };
for (const [kind, [slug, name, filter]] of Object.entries(terms)) {
  app.get(`/api/${kind}.json`, (_req, res) => {
    const found = new Map();
    for (const row of venues()) {
      const term = found.get(row[slug]) ?? { slug: row[slug], name: row[name], count: 0, api_url: `${BASE}/api/listings.json?${filter}=${row[slug]}` };
      term.count += 1;
      found.set(row[slug], term);
    }
    send(res, [...found.values()].sort((a, b) => (a.slug < b.slug ? -1 : 1)));
  });
}

app.listen(Number(PORT), "127.0.0.1");
