"""The mirror's data for other servers: read through its API, with the slugs that find each listing, into SQLite."""

import http.client
import json
import sqlite3
from datetime import datetime

from .processes import check
from .web import LIST, get

COLUMNS = "id name url city state sport lat lng rating review_count modified".split()
SLUGS = {"city": "cities", "state": "states"}
INDEXES = {
    "by_sport_state": "(sport, state_slug)",
    "by_city": "(city_slug)",
    "by_state": "(state_slug)",
    "by_sport_modified": "(sport, modified_at)",
}


def pages(port, query=""):
    """The items of all pages of a list, in order."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    page = total_pages = 1
    while page <= total_pages:
        connection.request("GET", f"{LIST}?per_page=100&page={page}{query}")
        found = json.loads(connection.getresponse().read())
        total_pages, page = found["total_pages"], page + 1
        yield found["items"]
    connection.close()


def terms_of(port, plural):
    """Slug to name and count of each term, whatever the envelope calls them."""
    found = {}

    def walk(value):
        if isinstance(value, list):
            for inner in value:
                walk(inner)
        elif isinstance(value, dict):
            if "slug" in value and "api_url" in value:
                count = next(inner for inner in value.values() if type(inner) is int)
                name = next(v for k, v in value.items() if type(v) is str and k not in ("slug", "api_url", "@type"))
                found[value["slug"]] = (name, count)
            else:
                for inner in value.values():
                    walk(inner)

    walk(json.loads(get(port, f"/api/{plural}.json")[2]))
    return found


class Slugs:
    """Which slug finds a listing. Terms that share their name are asked for, page by page."""

    def __init__(self, port, kind):
        self.kind, self.alone, self.by_id = kind, {}, {}
        named = {}
        for slug, (name, _) in terms_of(port, SLUGS[kind]).items():
            named.setdefault(name, []).append(slug)
        for name, slugs in named.items():
            if len(slugs) == 1:
                self.alone[name] = slugs[0]
                continue
            for slug in slugs:
                for items in pages(port, f"&{kind}={slug}"):
                    self.by_id.update((item["id"], slug) for item in items)

    def of(self, item):
        return self.alone.get(item[self.kind]) or self.by_id[item["id"]]


def seconds(modified):
    return int(datetime.fromisoformat(modified).timestamp())


def export(port, directory):
    """Two databases of the table `listings`: with the indexes that its queries need, and as it was filled."""
    bare, indexed = directory / "bare.db", directory / "listings.db"
    for path in (bare, indexed):
        path.unlink(missing_ok=True)
    city, state = Slugs(port, "city"), Slugs(port, "state")
    database = sqlite3.connect(bare)
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    # The order of the mirror is the order of the primary key.
    fields = f"position INTEGER PRIMARY KEY, {columns}, city_slug TEXT, state_slug TEXT, modified_at INTEGER"
    database.execute(f"CREATE TABLE listings ({fields})")
    position = 0
    for items in pages(port):
        rows = []
        for item in items:
            position += 1
            values = [item.get(name) for name in COLUMNS]
            rows.append([position, *values, city.of(item), state.of(item), seconds(item["modified"])])
        database.executemany(f"INSERT INTO listings VALUES ({', '.join('?' * len(rows[0]))})", rows)
    database.commit()
    for kind in SLUGS:
        # What the mirror says of its terms is the proof.
        counted = dict(database.execute(f"SELECT {kind}_slug, count(*) FROM listings GROUP BY 1"))
        for slug, (_, count) in terms_of(port, SLUGS[kind]).items():
            check(counted.get(slug, 0) == count, f"{kind} {slug}: {counted.get(slug)} exported, {count} mirrored")
    second = sqlite3.connect(indexed)
    database.backup(second)
    for name, keys in INDEXES.items():
        second.execute(f"CREATE INDEX {name} ON listings {keys}")
    second.execute("ANALYZE")
    second.commit()
    second.close()
    database.close()
    return indexed, bare


def as_json(path, out):
    """The table as json-server wants it, written row by row."""
    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    with open(out, "w") as file:
        file.write('{"listings":[')
        for number, row in enumerate(database.execute("SELECT * FROM listings ORDER BY position")):
            file.write(("," if number else "") + json.dumps(dict(row), separators=(",", ":")))
        file.write("]}")
    database.close()
