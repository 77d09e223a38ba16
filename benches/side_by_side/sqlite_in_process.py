"""SQLite without a server: page and total by prepared statements, encoded as JSON. Prints what a query costs.

`python sqlite_in_process.py DATABASE QUERIES SECONDS`; QUERIES: lines of JSON, each [condition, parameters, offset].
"""

import json
import sqlite3
import sys
import time

database, queries, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
connection = sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True, cached_statements=100)
connection.execute("PRAGMA mmap_size = 2147483648")
with open(queries) as file:
    queries = [json.loads(line) for line in file]
fields = [row[1] for row in connection.execute("PRAGMA table_info(listings)")]


def answer(condition, parameters, offset):
    (total,) = connection.execute(f"SELECT count(*) FROM listings WHERE {condition}", parameters).fetchone()
    page = f"SELECT * FROM listings WHERE {condition} ORDER BY position LIMIT 50 OFFSET ?"
    items = [dict(zip(fields, row)) for row in connection.execute(page, [*parameters, offset])]
    return json.dumps({"total": total, "items": items}, separators=(",", ":")).encode()


for query in queries[:20]:
    answer(*query)
began, cpu, count = time.monotonic(), time.process_time(), 0
while count < 5 or time.monotonic() - began < seconds:
    answer(*queries[(count + 20) % len(queries)])
    count += 1
print(json.dumps({"requests": count, "cpu": time.process_time() - cpu, "micros": (time.monotonic() - began) * 1e6}))
