"""The API on FastAPI with fastapi-cache2, which keeps whole answers, sends weak tags and no Age. Bad values are 422.

Reads the SQLite file that the environment names. `app` is what uvicorn runs. CACHE=no: each answer is made anew.
"""

import datetime
import json
import os
import sqlite3
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query
from fastapi_cache import FastAPICache
from fastapi_cache.backends.inmemory import InMemoryBackend
from fastapi_cache.decorator import cache

BASE, FRESH, DATABASE = os.environ["BASE"], int(os.environ["FRESH"]), os.environ["DATABASE"]
COLUMNS = {"sport": "sport", "state": "state_slug", "city": "city_slug"}
TERMS = {"sports": ("sport", "sport_name", "sport"), "states": ("state_slug", "state", "state"), "cities": ("city_slug", "city", "city")}
SUMMARY = "id, name, url, city, state, sport, lat, lng, rating, review_count, modified"


@asynccontextmanager
async def lifespan(_app):
    FastAPICache.init(InMemoryBackend(), enable=os.environ.get("CACHE") != "no")
    yield


app = FastAPI(lifespan=lifespan)


def rows(sql, values=()):
    connection = sqlite3.connect(DATABASE, timeout=30)
    try:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql, values)]
    finally:
        connection.close()


@app.get("/api/listings.json")
@cache(expire=FRESH)
async def listings(page: Annotated[int, Query(ge=1)] = 1, per_page: Annotated[int, Query(ge=1, le=100)] = 50, sport: str = "",
                   state: str = "", city: str = "", modified_since: datetime.datetime | None = None):
    given = {"sport": sport, "state": state, "city": city}
    filters, where, values = {name: slug for name, slug in given.items() if slug}, "deleted = 0", []
    for name, slug in filters.items():
        where += f" AND {COLUMNS[name]} = ?"
        values.append(slug)
    if modified_since:
        if modified_since.tzinfo is None:
            modified_since = modified_since.replace(tzinfo=datetime.timezone.utc)
        filters["modified_since"] = modified_since.isoformat()
        where += " AND modified > ?"
        values.append(modified_since.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
    total = rows(f"SELECT count(*) AS count FROM listings WHERE {where}", values)[0]["count"]
    found = rows(f"SELECT {SUMMARY} FROM listings WHERE {where} ORDER BY modified DESC, id DESC LIMIT ? OFFSET ?",
                 [*values, per_page, (page - 1) * per_page])
    return {"@context": "https://schema.org", "license": "https://creativecommons.org/licenses/by/4.0/", "attribution": "Venues",
            "docs": f"{BASE}/docs", "generated_at": datetime.datetime.now(datetime.timezone.utc).isoformat(), "@type": "ItemList",
            "page": page, "per_page": per_page, "total": total, "total_pages": -(-total // per_page), "filters": filters, "items": found}


@app.get("/api/listings/{number}.json")
@cache(expire=FRESH)
async def listing(number: int):
    found = rows("SELECT detail FROM listings WHERE deleted = 0 AND id = ?", [number])
    if not found:
        raise HTTPException(404, "no such listing")
    return json.loads(found[0]["detail"])


@app.get("/api/{kind}.json")
@cache(expire=FRESH)
async def terms(kind: str):
    if kind not in TERMS:
        raise HTTPException(404, "no such index")
    slug, name, parameter = TERMS[kind]
    return rows(f"SELECT {slug} AS slug, {name} AS name, count(*) AS count, ? || {slug} AS api_url FROM listings WHERE deleted = 0"
                " GROUP BY 1, 2 ORDER BY 1", [f"{BASE}/api/listings.json?{parameter}="])
