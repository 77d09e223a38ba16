"""A small origin that serves a list of listings as the API does. Not the sample origin. Callers: search_quality.py."""

import http.server
import json
import re
import threading
import unicodedata
from urllib.parse import parse_qs, urlsplit


def slug(*words):
    plain = unicodedata.normalize("NFKD", " ".join(words)).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def slugs(listing):
    """The values of the filters that a listing has."""
    state = slug(listing["state"])
    return {"sport": listing["sport"], "state": state, "city": f"{slug(listing['city'])}-{state}"}


class Origin(http.server.ThreadingHTTPServer):
    """On a free port, in threads that end with this process. `sports`: names by slug."""

    daemon_threads = True

    def __init__(self, listings, sports):
        super().__init__(("127.0.0.1", 0), Answers)
        self.listings = [(listing, slugs(listing)) for listing in listings]
        names = {"sport": lambda listing: sports[listing["sport"]], "state": lambda listing: listing["state"], "city": lambda listing: listing["city"]}
        self.terms = {}
        for kind, path in (("sport", "sports"), ("state", "states"), ("city", "cities")):
            terms = {}
            for listing, own in self.listings:
                of = f"http://127.0.0.1:{self.server_port}/api/listings.json?{kind}={own[kind]}"
                term = terms.setdefault(own[kind], {"slug": own[kind], "name": names[kind](listing), "count": 0, "api_url": of})
                term["count"] += 1
            self.terms[path] = {"items": sorted(terms.values(), key=lambda term: term["slug"])}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        name = parts.path.removeprefix("/api/").removesuffix(".json")
        if name == "listings":
            answer = self.page(query)
        elif name in self.server.terms:
            answer = self.server.terms[name]
        else:
            number = name.removeprefix("listings/")
            answer = next((listing for listing, _ in self.server.listings if str(listing["id"]) == number), None)
        body = json.dumps(answer, ensure_ascii=False).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def page(self, query):
        filters = {name: query[name] for name in ("sport", "state", "city", "modified_since") if query.get(name)}
        since = filters.get("modified_since", "")
        since = since if "T" in since or not since else f"{since}T00:00:00Z"
        chosen = [
            listing for listing, own in self.server.listings
            if listing["modified"] > since and all(own[name] == value for name, value in filters.items() if name != "modified_since")
        ]
        page, size = int(query.get("page", 1)), min(int(query.get("per_page", 50)), 100)
        return {
            "@context": "https://schema.org", "license": "https://creativecommons.org/licenses/by/4.0/", "attribution": "Made-up venues",
            "docs": "https://venues.example/docs", "generated_at": "2026-10-01T00:00:00Z", "@type": "ItemList", "page": page, "per_page": size,
            "total": len(chosen), "total_pages": -(-len(chosen) // size), "filters": filters, "items": chosen[(page - 1) * size : page * size],
        }

    def log_message(self, *_):
        pass
