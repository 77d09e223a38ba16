// An origin whose texts try to break out of every page that shows them.

import { createServer } from "node:http";

import { listening } from "./servers.mjs";

/** Markup, the end of a script, and text that is too wide for a small window. */
export const EVIL = `</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>"'&\u2028${"wide".repeat(100)}`;

const ADDRESSES = ["javascript:alert(3)", "data:text/html,<script>alert(4)</script>", "//evil.example/x.png", "https://good.example/?a=1&b=2"];

/** @param {number} id */
function summary(id) {
  const [name, city, state, sport] = Array(4).fill(EVIL);
  return { id, name, url: ADDRESSES[id % 4], city, state, sport, lat: id === 1 ? 30.5 : EVIL, lng: "-97.5", rating: 4.5, review_count: 3, modified: "2025-01-01T00:00:00Z" };
}

/** @param {number} id */
function detail(id) {
  return {
    ...summary(id), [EVIL]: EVIL, address: { street: EVIL, [EVIL]: EVIL }, hours: { monday: EVIL, [EVIL]: [EVIL, { opens: EVIL }] },
    phone: EVIL, website: ADDRESSES[id % 4], images: ADDRESSES.map((url) => ({ url, caption: EVIL })), aggregateRating: { ratingValue: EVIL },
    reviews: [EVIL, { author: EVIL, text: EVIL, rating: 5 }], deep: [[[[[[[[[[[[EVIL]]]]]]]]]]]], numbers: Array(300).fill(1.5),
  };
}

/** Starts it on a free port; what it returns has the address and stops it. */
export async function hostileOrigin() {
  const items = [1, 2, 3, 4].map(summary);
  const server = createServer((request, answer) => {
    const path = (request.url ?? "").split("?")[0];
    const id = Number(/^\/api\/listings\/(\d+)\.json$/.exec(path)?.[1]);
    const list = { license: "https://creativecommons.org/licenses/by/4.0/", attribution: EVIL, page: 1, per_page: 100, total: 4, total_pages: 1, filters: {}, items };
    const body = path === "/api/listings.json" ? list : id ? detail(id) : [];
    answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  return listening(server);
}
