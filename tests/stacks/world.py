"""The venues of a stack: 260 rows in SQLite or PostgreSQL, and what changes in them. Invented; the same in every run.

Some are modified minutes after and before midnight, in UTC and in zones of America, so that a date tells whose midnight it
is. Two cities share their name. Callers: stacks.py, trial.py.
"""

import datetime
import json
import random
import sqlite3
import subprocess
import time

SPORTS = {"golf": "Golf", "tennis": "Tennis", "climbing": "Climbing & Bouldering", "swimming": "Swimming", "soccer": "Soccer"}
CITIES = [
    ("austin", "Austin", "texas", "Texas"), ("dallas", "Dallas", "texas", "Texas"), ("canon-city", "Cañon City", "colorado", "Colorado"),
    ("springfield-il", "Springfield", "illinois", "Illinois"), ("springfield-mo", "Springfield", "missouri", "Missouri"),
    ("chicago", "Chicago", "illinois", "Illinois"), ("denver", "Denver", "colorado", "Colorado"), ("st-louis", "St. Louis", "missouri", "Missouri"),
]
ROWS, HIDDEN, BULK = 260, 7, 120
COLUMNS = ["id", "name", "url", "city", "city_slug", "state", "state_slug", "sport", "sport_name", "lat", "lng", "rating",
           "review_count", "modified", "deleted", "detail"]
SCHEMA = """CREATE TABLE listings (id INTEGER PRIMARY KEY, name TEXT, url TEXT, city TEXT, city_slug TEXT, state TEXT,
 state_slug TEXT, sport TEXT, sport_name TEXT, lat NUMERIC, lng NUMERIC, rating NUMERIC, review_count INTEGER, modified {instant},
 deleted INTEGER, detail {json})"""
UTC = datetime.timezone.utc


def stamp(instant):
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def _literal(value):
    return str(value) if isinstance(value, (int, float)) else "'" + value.replace("'", "''") + "'"


class World:
    """What the rows are, told in SQL that both databases read. `hidden`: some rows are deleted softly."""

    def __init__(self, hidden=False):
        self.dice, self.hidden, self.made, self.execute, self.ids = random.Random(34), hidden, 0, None, set()

    def fill(self, execute, instant, json_type):
        """Makes the table by `execute(sql)`, which later changes use, too."""
        self.execute = execute
        execute(SCHEMA.format(instant=instant, json=json_type))
        now = datetime.datetime.now(UTC).replace(microsecond=0)
        rows = [self._row(now - self._age(number)) for number in range(ROWS)]
        if self.hidden:
            for row in rows[3 :: ROWS // HIDDEN][:HIDDEN]:
                row["deleted"] = 1
        self.ids = {row["id"] for row in rows if not row["deleted"]}
        execute(self._insert(rows))

    def _age(self, number):
        if number % 8 == 0:  # minutes beside a midnight: of UTC, of Chicago (winter and summer), of New York
            day = datetime.datetime.now(UTC).hour * 60 + datetime.datetime.now(UTC).minute
            hours = self.dice.choice([0, 0, 4, 5, 6])
            beside = self.dice.choice([-1, 1]) * self.dice.randint(1, 10)
            days = self.dice.randint(1, 30)
            return datetime.timedelta(days=days, minutes=day - hours * 60 + beside, seconds=self.dice.randint(0, 59))
        return datetime.timedelta(days=self.dice.randint(1, 300), seconds=self.dice.randint(0, 86_399))

    def _row(self, modified):
        self.made += 1
        number, dice = self.made, self.dice
        city_slug, city, state_slug, state = dice.choice(CITIES)
        sport = dice.choice(list(SPORTS))
        name = f"{dice.choice(['Río Vista', 'O’Neill', 'North/South', 'Lakeside', 'Café Court'])} {SPORTS[sport]} {number}"
        url = f"https://venues.example/{state_slug}/{number}"
        detail = {"id": number, "name": name, "url": url, "address": {"street": f"{number} Main St", "city": city},
                  "hours": ["Mo 9–17", "Tu 9–17"], "phone": "+1 555 0100", "place_id": f"p/{number}", "updated": stamp(modified)}
        values = [number, name, url, city, city_slug, state, state_slug, sport, SPORTS[sport], round(dice.uniform(30, 42), 4),
                  round(dice.uniform(-105, -89), 4), dice.choice([3.5, 4.0, 4.25, 4.9]), dice.randint(0, 900), stamp(modified), 0,
                  json.dumps(detail, ensure_ascii=False)]
        return dict(zip(COLUMNS, values))

    @staticmethod
    def _insert(rows):
        values = ", ".join("(" + ", ".join(_literal(row[column]) for column in COLUMNS) + ")" for row in rows)
        return f"INSERT INTO listings ({', '.join(COLUMNS)}) VALUES {values}"

    def small_change(self):
        """Three rows edited with their details, one deleted, one new. The ids whose details are new."""
        now = stamp(datetime.datetime.now(UTC))
        edited = [number for number in (11, 97, 203) if number in self.ids]
        for number in edited:
            detail = json.dumps({"id": number, "name": f"Renamed {number}", "note": "déjà vu", "updated": now}, ensure_ascii=False)
            values = f"name = 'Renamed {number}', modified = '{now}', detail = {_literal(detail)}"
            self.execute(f"UPDATE listings SET {values} WHERE id = {number}")
        self.execute("DELETE FROM listings WHERE id = 150")
        row = self._row(datetime.datetime.now(UTC))
        self.execute(self._insert([row]))
        self.ids = self.ids - {150} | {row["id"]}
        return [*edited, row["id"]]

    def bulk_change(self):
        """Many rows get one `modified`. The ids of those rows; their details stay."""
        now = stamp(datetime.datetime.now(UTC))
        numbers = sorted(self.ids)[40 : 40 + BULK]
        listed = ", ".join(map(str, numbers))
        self.execute(f"UPDATE listings SET modified = '{now}', review_count = review_count + 1 WHERE id IN ({listed})")
        return numbers


def sqlite(path, after):
    """What executes SQL in a file; `after(connection)` is called after each change."""

    def execute(sql):
        connection = sqlite3.connect(path, timeout=30)
        try:
            with connection:
                connection.execute(sql)
            after(connection)
        finally:
            connection.close()

    return execute


def rows_as_json(path):
    """Writes the rows into a file, for programs that read no SQLite. To be called after each change."""

    def write(connection):
        names = ", ".join(COLUMNS)
        rows = [dict(zip(COLUMNS, row)) for row in connection.execute(f"SELECT {names} FROM listings WHERE deleted = 0")]
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps([{**row, "detail": json.loads(row["detail"])} for row in rows]))
        fresh.rename(path)

    return write


def postgres(psql, port, database):
    """What executes SQL in a database of a server on this machine."""

    command = [psql, "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-d", database, "-q", "-v", "ON_ERROR_STOP=1"]

    def execute(sql):
        done = subprocess.run(command, input=sql, text=True, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"psql: {done.stderr.strip()}")

    # It listens before it is ready.
    deadline = time.monotonic() + 60
    while subprocess.run(command, input="SELECT 1", text=True, capture_output=True).returncode != 0:
        if time.monotonic() > deadline:
            execute("SELECT 1")
        time.sleep(0.1)
    return execute
