// Uses the types that openapi-typescript has generated, with openapi-fetch.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

const { GET } = createClient<paths>({ baseUrl: process.argv[2] });

function sure(right: boolean, what: unknown): asserts right {
  if (!right) throw new Error(JSON.stringify(what));
}

const page = await GET("/api/listings.json", { params: { query: { per_page: 2 } } });
sure(page.data !== undefined && page.data.total === 400 && page.data.items.length === 2, page);
const first: components["schemas"]["Listing"] | undefined = page.data.items[0];
sure(first !== undefined && first.id !== undefined && typeof first.name === "string", first);

const detail = await GET("/api/listings/{id}.json", { params: { path: { id: first.id } } });
sure(detail.data !== undefined && !Array.isArray(detail.data) && typeof detail.data.phone === "string", detail);

const sports = await GET("/api/sports.json");
sure(sports.data !== undefined && !Array.isArray(sports.data), sports);
const slug: string | undefined = sports.data.items?.[0]?.slug;
sure(typeof slug === "string", sports);

const wrong = await GET("/api/listings.json", { params: { query: { modified_since: "yesterday" } } });
// In our words or in the origin's, whichever the mirror has learned by now.
sure(wrong.response.status === 400 && JSON.stringify(wrong.error).includes("yesterday"), wrong);
for (const sport of ["html", "object", "list", "problem", "text"]) {
  const { GET } = createClient<paths>({ baseUrl: process.argv[3] });
  const refused = await GET("/api/listings.json", { params: { query: { city: "404", sport } } });
  sure(refused.response.status === 404 && JSON.stringify(refused.error).includes("gone"), refused);
}
console.log("clients: the TypeScript client works");
