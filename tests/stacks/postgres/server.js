// The API on Fastify and PostgreSQL, which makes the JSON. Numbers are digits only, dates are what PostgreSQL reads as one.
//
// ORDER: what the rows are ordered by; `modified DESC` alone leaves ties to the plan, so that pages contradict each other.
// TOTAL=all: `total` counts rows that are deleted softly. ARRAYS=yes: a detail is an array of one, as from PostgREST.
const { createHash } = require("node:crypto");
const fastify = require("fastify")();
const { Pool } = require("pg");

const { PORT, BASE, DATABASE, FRESH, ORDER, TOTAL, ARRAYS } = process.env;
const pool = new Pool({ connectionString: DATABASE, max: 4, options: "-c timezone=UTC" });
const columns = { sport: "sport", state: "state_slug", city: "city_slug" };

function send(reply, request, text, generated = "") {
  const etag = `"${createHash("sha1").update(text).digest("hex")}"`;
  reply.header("etag", etag).header("cache-control", `public, max-age=${FRESH}`);
  if (request.headers["if-none-match"] === etag) return reply.code(304).send();
  return reply.type("application/json").send(text.replace('"generated_at":null', `"generated_at":${JSON.stringify(generated)}`));
}

function number(text, fallback) {
  if (text === undefined || text === "") return fallback;
  return /^[0-9]{1,9}$/.test(text) && Number(text) > 0 ? Number(text) : undefined;
}

fastify.get("/api/listings.json", async (request, reply) => {
  const query = Object.fromEntries(Object.entries(request.query).map(([name, value]) => [name, [value].flat().at(-1)]));
  const page = number(query.page, 1);
  const size = Math.min(100, number(query.per_page, 50));
  if (!page || !size) return reply.code(400).send({ message: "page and per_page are positive numbers" });
  const filters = {};
  const values = [];
  let where = "true";
  for (const [name, column] of Object.entries(columns)) {
    if (!query[name]) continue;
    filters[name] = query[name];
    where += ` AND ${column} = $${values.push(query[name])}`;
  }
  if (query.modified_since) {
    filters.modified_since = query.modified_since;
    where += ` AND modified > $${values.push(query.modified_since)}::timestamptz`;
  }
  try {
    const counted = TOTAL === "all" ? where : `deleted = 0 AND ${where}`;
    const total = Number((await pool.query(`SELECT count(*) FROM listings WHERE ${counted}`, values)).rows[0].count);
    const found = await pool.query(
      `SELECT coalesce(json_agg(row_to_json(one)), '[]')::text AS items FROM
         (SELECT id, name, url, city, state, sport, lat, lng, rating, review_count, modified FROM listings
          WHERE deleted = 0 AND ${where} ORDER BY ${ORDER} LIMIT ${size} OFFSET ${(page - 1) * size}) AS one`, values);
    const envelope = {
      "@context": "https://schema.org", license: "https://creativecommons.org/licenses/by/4.0/", attribution: "Venues",
      docs: `${BASE}/docs`, generated_at: null, "@type": "ItemList", page, per_page: size, total, total_pages: Math.ceil(total / size), filters,
    };
    const text = `${JSON.stringify(envelope).slice(0, -1)},"items":${found.rows[0].items}}`;
    return send(reply, request, text, new Date().toISOString());
  } catch (error) {
    if (error.code?.startsWith("22")) return reply.code(400).send({ message: "modified_since is not a date" });
    throw error;
  }
});

fastify.get("/api/listings/:file", async (request, reply) => {
  const id = number(/^(.*)\.json$/.exec(request.params.file)?.[1], undefined);
  const found = id && await pool.query("SELECT detail::text AS detail FROM listings WHERE deleted = 0 AND id = $1", [id]);
  if (!found?.rows.length) return reply.code(404).send({ message: "no such listing" });
  const { detail } = found.rows[0];
  return send(reply, request, ARRAYS === "yes" ? `[${detail}]` : detail);
});

const terms = { sports: ["sport", "sport_name", "sport"], states: ["state_slug", "state", "state"], cities: ["city_slug", "city", "city"] };
for (const [kind, [slug, name, filter]] of Object.entries(terms)) {
  fastify.get(`/api/${kind}.json`, async (request, reply) => {
    const found = await pool.query(
      `SELECT coalesce(json_agg(one), '[]')::text AS terms FROM
         (SELECT ${slug} AS slug, ${name} AS name, count(*) AS count, $1 || ${slug} AS api_url FROM listings
          WHERE deleted = 0 GROUP BY 1, 2 ORDER BY 1) AS one`, [`${BASE}/api/listings.json?${filter}=`]);
    return send(reply, request, found.rows[0].terms);
  });
}

fastify.listen({ port: Number(PORT), host: "127.0.0.1" });
