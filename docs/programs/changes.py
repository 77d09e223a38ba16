"""Everything, or what has changed since a snapshot or token: what the other files here read."""
import json, os, urllib.error, urllib.request

MIRROR = os.environ.get("MIRROR", "http://127.0.0.1:8080")

def lines(path):
    with urllib.request.urlopen(MIRROR + path, timeout=60) as answer:
        return [json.loads(line) for line in answer.read().splitlines()], answer.headers["Mirror-Snapshot"]

def row(record):
    return record["id"], *(json.dumps(record[part]) if part in record else None for part in ("listing", "detail"))

def changes(since):
    """Rows (id, listing, detail), the next `since`, and whether the rows are everything. No listing: removed."""
    if since:
        try:
            *records, end = lines(f"/changes.ndjson?since={since}")[0]
            return [row(record) for record in records], end["next"], False  # no "next": the answer was cut off
        except urllib.error.HTTPError as error:
            if error.code != 410:  # 410: start over
                raise
    listings, snapshot = lines("/dumps/listings.ndjson")
    details = {line["id"]: line for line in lines("/dumps/details.ndjson")[0]}
    return [row({"listing": it, **details.get(it["id"], {"id": it["id"]})}) for it in listings], snapshot, True
