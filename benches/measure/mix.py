"""Queries that nobody asked before: 40 % sport and state, 20 % city, 20 % a page of a state, 10 % sport and since, 10 %
any page. Values follow the data: of each query, a listing chosen at random decides."""

import json
import random
import re
import sqlite3
from dataclasses import dataclass
from datetime import datetime, timezone

from .processes import check
from .web import LIST, get, timeless

PER_PAGE = 50


@dataclass(frozen=True)
class Query:
    """A list query; `since`: whole seconds, below the fraction of `modified_since`, which no listing has."""

    sport: str = None
    state: str = None
    city: str = None
    since: int = None
    fraction: str = "0"
    page: int = 1

    def to_line(self, unique=False):
        """As a query string. `unique`: "#" stands for a number of its own; without a `modified_since` of its own, one
        from before all data gives it a place."""
        parts = [f"{name}={getattr(self, name)}" for name in ("sport", "state", "city") if getattr(self, name)]
        parts += [f"page={self.page}"] if self.page > 1 else []
        if self.since is not None:
            at = datetime.fromtimestamp(self.since, timezone.utc)
            parts.append(f"modified_since={at:%Y-%m-%dT%H:%M:%S}.{'#' if unique else self.fraction}Z")
        elif unique:
            parts.append("modified_since=1990-01-01T00:00:00.#Z")
        return "&".join(parts)

    def where(self):
        """As a condition of SQL and its parameters; a page has to be found beside."""
        terms = [("sport = ?", self.sport), ("state_slug = ?", self.state), ("city_slug = ?", self.city)]
        terms.append(("modified_at > ?", self.since))
        kept = [(text, value) for text, value in terms if value is not None]
        return " AND ".join(text for text, _ in kept) or "1", [value for _, value in kept]


def queries(database, count):
    """The mix over an exported table."""
    dice, connection = random.Random(1), sqlite3.connect(database)
    (total,) = connection.execute("SELECT count(*) FROM listings").fetchone()
    of_state = dict(connection.execute("SELECT state_slug, count(*) FROM listings GROUP BY 1"))
    pages = lambda listings: -(-listings // PER_PAGE)
    found = []
    for position in dice.choices(range(1, total + 1), k=count):
        fields = "sport, state_slug, city_slug, modified_at"
        row = connection.execute(f"SELECT {fields} FROM listings WHERE position = ?", [position]).fetchone()
        (sport, state, city, at), roll = row, dice.random()
        if roll < 0.4:
            query = Query(sport=sport, state=state)
        elif roll < 0.6:
            query = Query(city=city)
        elif roll < 0.8:
            query = Query(state=state, page=dice.randint(1, pages(of_state[state])))
        elif roll < 0.9:
            query = Query(sport=sport, since=at, fraction=f"{dice.randrange(10**9):09}")
        else:
            query = Query(page=dice.randint(1, pages(total)))
        found.append(query)
    connection.close()
    return found


def answer_of(port, query):
    """What the mirror says: total and ids."""
    found = json.loads(get(port, f"{LIST}?{query.to_line()}")[2])
    return found["total"], [item["id"] for item in found["items"]]


def check_against_origin(lines, port, origin_port, count):
    """Asserts that the mirror answers a sample as the origin does, byte for byte but for the time."""
    for number, line in enumerate(random.Random(2).sample(lines, count)):
        target = f"{LIST}?{re.sub('#', f'{number:09}', line)}"
        ours, theirs = (timeless(get(at, target)[2]) for at in (port, origin_port))
        check(ours == theirs, f"the answer to {target} is not the origin's")
