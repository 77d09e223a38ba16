"""Servers of data that can answer any query: Datasette, ROAPI, json-server, and SQLite in a process without a server.

Each is started on an exported table, turns a query into its own requests, and reads total and ids out of the answers.
"""

import http.client
import json
import sqlite3
import subprocess
import sys
import time
from urllib.parse import quote, urlencode

from . import tools
from .export import as_json
from .load import PARTS, Pool, ask
from .mix import PER_PAGE
from .processes import check, cpu_seconds, free_port, start, wait_for


class DataServer:
    """`database`: with the indexes that the mix needs."""

    def __init__(self, database):
        self.database, self.port, self.child, self.pool = database, free_port(), None, None
        self.prepared = None
        self.connection = sqlite3.connect(database)

    def launch(self, core, directory):
        """Starts it; the seconds until it gives its first answer."""
        directory.mkdir(exist_ok=True)
        command, began = self.command(directory), time.monotonic()
        log = directory / f"{type(self).__name__}.log"
        self.child, self.pool = start(command, core, log, cwd=directory), Pool(self.port)
        wait_for(self.name, 180, lambda: self.first(), 0.01)
        return time.monotonic() - began

    def first(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            return connection.connect() is None
        finally:
            connection.close()

    def answer(self, query):
        """Total and ids, over the wire."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        found = []
        for request in self.requests(query):
            status, answer = ask(connection, request)
            check(status == 200, f"{self.name}: {status} for {request}: {answer.body[:500]}")
            found.append(answer)
        connection.close()
        return self.read(found)

    def measure(self, queries, seconds):
        """Seconds of CPU, and what the clients counted."""
        if self.prepared is None:
            self.prepared = [self.requests(query) for query in queries]
        before = cpu_seconds(self.child)
        count, took = self.pool.run(self.prepared, seconds)
        return cpu_seconds(self.child) - before, {"requests": count, "micros": took * 1e6}

    def before_page(self, query):
        """The key of the last row before a page: what a client that pages on has from the page before."""
        if query.page == 1:
            return None
        condition, parameters = query.where()
        skipped = (query.page - 1) * PER_PAGE - 1
        if not parameters:
            return skipped + 1
        text = f"SELECT position FROM listings WHERE {condition} ORDER BY position LIMIT 1 OFFSET {skipped}"
        return self.connection.execute(text, parameters).fetchone()[0]


class Datasette(DataServer):
    name, package = "Datasette as installed", "datasette"

    def command(self, directory):
        # Nobody but the export made indexes.
        database = self.database.with_name("bare.db")
        options = ["--host", "127.0.0.1", "--port", str(self.port)]
        # A slow answer is measured, not refused.
        options += ["--setting", "sql_time_limit_ms", "60000"]
        return [self.programs / "datasette", "serve", database, *options]

    @property
    def stem(self):
        return "bare"

    def install(self):
        self.programs = tools.install_python(self.package)
        return self.programs and tools.python_version(self.programs, "datasette")

    def requests(self, query):
        fields = [("sport__exact", query.sport), ("state_slug__exact", query.state), ("city_slug__exact", query.city)]
        fields += [("modified_at__gt", query.since), ("_next", self.before_page(query))]
        fields += [("_size", PER_PAGE), ("_shape", "objects"), *self.more]
        query = urlencode([(name, value) for name, value in fields if value is not None])
        return [("GET", f"/{self.stem}/listings.json?{query}", None)]

    more = ()

    def read(self, answers):
        found = json.loads(answers[0].body)
        return found["filtered_table_rows_count"], [row["id"] for row in found["rows"]]


class DatasetteTuned(Datasette):
    name, package = "Datasette tuned", "datasette-tuned"
    more = (("_nofacet", 1), ("_nosuggest", 1))

    def command(self, directory):
        return [self.programs / "python", PARTS / "datasette_tuned.py", self.database, self.port]

    @property
    def stem(self):
        return "listings"


class Roapi(DataServer):
    name, package = "ROAPI", "roapi"

    def install(self):
        self.programs = tools.install_python(self.package)
        return self.programs and tools.python_version(self.programs, "roapi")

    def command(self, directory):
        parquet = self.database.with_name("listings.parquet")
        if not parquet.exists():
            done = subprocess.run(
                [self.programs / "python", PARTS / "to_parquet.py", self.database, parquet],
                capture_output=True,
                text=True,
            )
            check(done.returncode == 0, f"to_parquet: {done.stderr}")
        table = f"listings={parquet}"
        return [self.programs / "roapi", "--table", table, "--addr-http", f"127.0.0.1:{self.port}"]

    def requests(self, query):
        condition, parameters = query.where()
        for value in parameters:
            text = f"'{value}'" if isinstance(value, str) else str(value)
            condition = condition.replace("?", text, 1)
        where = f"FROM listings WHERE {condition}" if parameters else "FROM listings"
        count = ("POST", "/api/sql", f"SELECT COUNT(*) AS total {where}")
        if query.page > 1:
            # Its REST has no offset.
            skipped = (query.page - 1) * PER_PAGE
            page = f"SELECT * {where} ORDER BY position LIMIT {PER_PAGE} OFFSET {skipped}"
            return [("POST", "/api/sql", page), count]
        terms = [("sport", query.sport), ("state_slug", query.state), ("city_slug", query.city)]
        fields = [f"filter[{name}]='{quote(value)}'" for name, value in terms if value]
        fields += [f"filter[modified_at]gt={query.since}"] if query.since is not None else []
        return [
            ("GET", f"/api/tables/listings?{'&'.join([*fields, 'sort=position', f'limit={PER_PAGE}'])}", None),
            count,
        ]

    def read(self, answers):
        page, count = (json.loads(answer.body) for answer in answers)
        return count[0]["total"], [row["id"] for row in page]


class JsonServer(DataServer):
    name, package = "json-server", "json-server"

    def install(self):
        self.programs = tools.install_node(self.package)
        return self.programs and f"json-server {tools.version(str(self.programs), '--version')}"

    def command(self, directory):
        data = self.database.with_name("listings.json")
        if not data.exists():
            as_json(self.database, data)
        return [self.programs, data, "--host", "127.0.0.1", "--port", str(self.port), "--quiet"]

    def requests(self, query):
        fields = [("sport", query.sport), ("state_slug", query.state), ("city_slug", query.city)]
        # It knows "at least"; there are only whole seconds.
        fields += [("modified_at_gte", None if query.since is None else query.since + 1)]
        fields += [("_page", query.page), ("_limit", PER_PAGE)]
        return [("GET", f"/listings?{urlencode([(k, v) for k, v in fields if v is not None])}", None)]

    def read(self, answers):
        ids = [row["id"] for row in json.loads(answers[0].body)]
        return int(answers[0].headers["X-Total-Count"]), ids


class InProcess(DataServer):
    """Python's sqlite3 and json: no server, nothing between the query and its answer. A lower bound, not a peer."""

    name = "SQLite in-process"

    def install(self):
        return f"SQLite {sqlite3.sqlite_version}"

    def launch(self, core, directory):
        directory.mkdir(exist_ok=True)
        self.core, self.directory = core, directory
        return None

    def answer(self, query):
        condition, parameters = query.where()
        (total,) = self.connection.execute(f"SELECT count(*) FROM listings WHERE {condition}", parameters).fetchone()
        page = f"SELECT id FROM listings WHERE {condition} ORDER BY position LIMIT {PER_PAGE} OFFSET ?"
        ids = self.connection.execute(page, [*parameters, (query.page - 1) * PER_PAGE])
        return total, [row[0] for row in ids]

    def measure(self, queries, seconds):
        file = self.directory / "in-process.jsonl"
        if not file.exists():
            lines = [json.dumps([*query.where(), (query.page - 1) * PER_PAGE]) for query in queries]
            file.write_text("\n".join(lines) + "\n")
        script = PARTS / "sqlite_in_process.py"
        command = ["taskset", "-c", str(self.core), sys.executable, script, self.database, file, seconds]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        check(done.returncode == 0, f"sqlite_in_process: {done.stderr}")
        result = json.loads(done.stdout)
        return result.pop("cpu"), result


ALL = [InProcess, DatasetteTuned, Datasette, Roapi, JsonServer]
