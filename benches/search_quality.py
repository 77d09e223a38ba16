#!/usr/bin/env python3
"""Measures how well /search.json finds what people mean, beside SQLite's full-text search (FTS5, porter) over the same data.

    cargo build --release --locked
    python3 benches/search_quality.py
    python3 benches/search_quality.py --binary target/debug/grandstand --sets texas,islands --show

Of each data set, up to 300 queries of sixteen kinds, with what a person expects. "Found": for a query that names a venue,
whether it is among the first ten; for others, the share of the first ten (or of all that are right, if they are fewer) that
are right. "Rank": the mean reciprocal rank of the first right one. FTS5 looks for all words, and for any of them where no
listing has all; its order is bm25. The set `held out` is for the end: a search must not be made to fit it. It is the same
answer with a debug build. Prints a report in Markdown.
"""

import argparse
import json
import sqlite3
import re
import urllib.parse

from measure import tools
from measure.bench import argument_parser, begin
from measure.mirror import Grandstand, start_origin
from measure.processes import check, say, stop, wait_for
from measure.web import get
from quality import venues
from quality.origin import Origin
from quality.people import People

SETS = ["mirror.examine_per_hour=0", 'mirror.details="on-demand"', 'ttl="10h"']
FIRST = 10
SAMPLE = "sample"


class FullText:
    """The peer: an index of SQLite's in memory."""

    def __init__(self, listings, sports):
        self.base = sqlite3.connect(":memory:")
        columns = "name, city, state, sport, sport_name"
        self.base.execute(f"CREATE VIRTUAL TABLE venues USING fts5({columns}, tokenize = 'porter unicode61 remove_diacritics 2')")
        rows = [(one["id"], one["name"], one["city"], one["state"], one["sport"], sports[one["sport"]]) for one in listings]
        self.base.executemany(f"INSERT INTO venues (rowid, {columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)

    def first(self, text):
        words = [f'"{word}"' for word in re.findall(r"\w+", text)]
        for joined in (" AND ", " OR "):
            asked = "SELECT rowid FROM venues WHERE venues MATCH ? ORDER BY rank LIMIT ?"
            found = [number for number, in self.base.execute(asked, (joined.join(words), FIRST))]
            if found:
                return found
        return []


class Searched:
    """A mirror's search."""

    def __init__(self, mirror):
        self.port = mirror.port

    def first(self, text):
        status, _, body = get(self.port, f"/search.json?per_page={FIRST}&q={urllib.parse.quote(text)}")
        check(status == 200, f"{text!r}: {status} {body[:300]!r}")
        return [item["listing"]["id"] for item in json.loads(body)["items"]]


def value(found, right, is_venue):
    """How much of what is right was found, and the reciprocal rank of the first."""
    rank = next((1 / place for place, number in enumerate(found, 1) if number in right), 0)
    share = float(rank > 0) if is_venue else sum(number in right for number in found) / min(FIRST, len(right))
    return share, rank


def mean(values):
    return sum(values) / len(values)


def read(port):
    """The listings that a mirror has, and the names of sports by slug."""
    listings = [json.loads(line) for line in get(port, "/dumps/listings.ndjson", timeout=120)[2].splitlines()]
    sports = json.loads(get(port, "/api/sports.json")[2])
    return listings, {term["slug"]: term["name"] for term in sports["items"]}


def measure(name, mirror, share, show):
    """Rows of a table, and all values of ours and of the peer."""
    check(mirror.wait(600) is not None, "the copy is not complete")
    wait_for("the index", 120, lambda: get(mirror.port, "/search.json?q=a")[0] == 200)
    listings, sports = read(mirror.port)
    engines = [Searched(mirror), FullText(listings, sports)]
    rows, everything = [], [[], []]
    for kind, is_venue, queries in People(name, listings, sports).queries(share):
        values = [[value(engine.first(text), right, is_venue) for text, right in queries] for engine in engines]
        for (text, right), ours, theirs in zip(queries, *values) if show else []:
            if ours[0] < 1 or ours[1] < 1 or ours < theirs:
                say(f"{name}, {kind}: {text!r}: found {ours[0]:.2f}, rank {ours[1]:.2f}; FTS5 {theirs[0]:.2f}, {theirs[1]:.2f}; right: {len(right)}")
        rows.append((kind, len(queries), values))
        for all_values, own in zip(everything, values):
            all_values.extend(own)
    rows.append(("all", len(everything[0]), everything))
    return rows, len(listings)


def report(name, count, rows):
    print(f"\n## {name}: {count:,} listings\n\n| query | queries | found | FTS5 | rank | FTS5 |\n|---|---:|---:|---:|---:|---:|")
    for kind, queries, (ours, theirs) in rows:
        (found, rank), (their_found, their_rank) = ([mean([pair[at] for pair in own]) for at in (0, 1)] for own in (ours, theirs))
        behind = " (behind)" if found < their_found or rank < their_rank else ""
        print(f"| {kind}{behind} | {queries} | {100 * found:.1f} % | {100 * their_found:.1f} % | {rank:.3f} | {their_rank:.3f} |")


def arguments():
    parser = argument_parser(__doc__)
    names = [SAMPLE, *(name for name, _, _ in [*venues.SETS, venues.LAST])]
    parser.add_argument("--binary", dest="grandstand", default=argparse.SUPPRESS, help="the same as --grandstand")
    parser.add_argument("--sets", default=",".join(names), help="data sets, with commas between them (%(default)s)")
    parser.add_argument("--share", type=float, default=1.0, help="of the queries of each kind (%(default)s)")
    parser.add_argument("--show", action="store_true", help="name each query whose answer is not as expected, on standard error")
    options = parser.parse_args()
    options.sets = options.sets.split(",")
    check(set(options.sets) <= set(names), f"--sets: {options.sets}; known: {', '.join(names)}")
    return options


def main():
    options = arguments()
    binary, server_core, load_core, directory = begin("search-quality", options)
    print(f"* Command: `{tools.command_line()}`\n* Version: {tools.fingerprint(binary)}; SQLite {sqlite3.sqlite_version}.")
    known = {name: (words, count) for name, words, count in [*venues.SETS, venues.LAST]}
    for name in options.sets:
        where = directory / name.replace(" ", "-")
        where.mkdir()
        if name == SAMPLE:
            port, _ = start_origin(binary, load_core, where, 3000)
        else:
            port = Origin(venues.made(name, *known[name]), {slug: shown for slug, (shown, _) in venues.SPORTS.items()}).server_port
        mirror = Grandstand(binary, server_core, where / "mirror", port, *SETS)
        mirror.start()
        rows, count = measure(name, mirror, options.share, options.show)
        stop(mirror.child)
        report(name, count, rows)


if __name__ == "__main__":
    main()
