"""Queries that nobody asked before: grandstand without the help of its reply cache, beside servers of data.

CPU per page of 50 with its exact total. The goals are for queries of which each is asked once: a `modified_since` that
no other query has makes them so, one from before all data where the mix has none. That is a condition more for ours
which the peers are not asked; they have no cache of replies, and are asked 2,000 queries of the mix in turns. Slow
servers are asked by four clients one after another, grandstand by wrk.
"""

import http.client
import random

from .data_servers import ALL
from .export import export
from .load import CONNECTIONS, wrk
from .mix import answer_of, check_against_origin, queries
from .processes import check, cpu_seconds, say, stop
from .row import OURS, Row, spread
from .web import LIST

# What ours may cost of a peer's, and what it may cost at all, at each size.
GOALS = {"SQLite in-process": 1 / 9, "Datasette tuned": 1 / 80, "ROAPI": 1 / 100}
MOST = 30
# At a million: of what it costs at ten thousand.
GROWTH = 2
# What becomes of a peer that does not work.
FAILURES = (SystemExit, OSError, ValueError, KeyError, http.client.HTTPException)


class Mix:
    """The mix as wrk asks it. `unique`: no query is asked twice."""

    def __init__(self, file, lines):
        self.file, self.sent = file, 1000
        file.write_text("\n".join(lines) + "\n")

    def measure(self, mirror, core, seconds):
        before = cpu_seconds(mirror.child)
        result = wrk(core, mirror.port, LIST, seconds, None, "mix.lua", (self.file, self.sent))
        used = cpu_seconds(mirror.child) - before
        check(result["refused"] == 0 and result["broken"] == 0, f"never seen: {result}")
        self.sent += result["requests"] + CONNECTIONS
        return used, result


def leave_out(bench, server, error):
    """A peer that fails does not end the run."""
    if isinstance(error, SystemExit) and not isinstance(error.code, str):
        raise error
    if server.child:
        stop(server.child)
    say(f"{server.name}: {error}")
    bench.notes.append(f"{server.name} failed and is left out: {str(error)[:200]}")


def launch(bench, database, directory, asked):
    """The data servers that can be had, started, with what a sample of their answers was worth."""
    expected = {query: answer_of(bench.mirror_of_answers.port, query) for query in asked}
    servers = []
    for kind in ALL:
        if kind.name in bench.options.skip:
            continue
        server = kind(database)
        version = server.install()
        if not version:
            bench.notes.append(f"{kind.name} could not be installed, and is left out.")
            continue
        bench.versions.add(version)
        say(f"{kind.name} ...")
        try:
            began = server.launch(bench.server_core, directory)
            wrong = sum(server.answer(query) != expected[query] for query in asked)
        except FAILURES as error:
            leave_out(bench, server, error)
            continue
        took = f", up in {began:.1f} s" if began else ""
        say(f"{kind.name}: {wrong} wrong of {len(asked)}{took}")
        server.told = f"{wrong} wrong of {len(asked)}{took}"
        servers.append(server)
    return servers


def run(bench, site, title, sample=60, against_origin=300, reference=None):
    """Rows of one size. `site.cached`: a mirror with its cache at work, `site.mirror` one whose cache holds nothing.
    `reference`: microseconds at the smaller size."""
    directory = bench.directory / f"never-seen-{site.listings}"
    directory.mkdir()
    say(f"exporting {site.listings:,} listings ...")
    database, _ = export(site.mirror.port, directory)
    asked = queries(database, 20_000)
    lines, unique = [query.to_line() for query in asked], [query.to_line(True) for query in asked]
    check_against_origin(lines, site.mirror.port, site.origin_port, against_origin)
    check_against_origin(unique, site.mirror.port, site.origin_port, against_origin)
    bench.mirror_of_answers = site.mirror
    chosen = asked[:2000]
    servers = launch(bench, database, directory, random.Random(3).sample(chosen, sample))
    most = MOST if reference is None else GROWTH * reference
    goals = GOALS if reference is None else {}
    row = Row(f"{title}: every query unique, no reply cache", goals, most)
    again = Row(f"{title}: {len(lines):,} queries of the mix in turns, no reply cache")
    mixes = [(row, Mix(directory / "unique-uncached", unique), site.mirror)]
    mixes.append((again, Mix(directory / "mix", lines), site.mirror))
    if site.cached:
        filling = Row(f"{title}: every query unique, reply cache filling and evicting", {}, most)
        mixes.append((filling, Mix(directory / "unique", unique), site.cached))
    tails = {id(each): [] for each, _, _ in mixes}
    for number in range(bench.options.rounds):
        for each, mix, mirror in mixes:
            used, result = mix.measure(mirror, bench.load_core, bench.options.seconds)
            each.note(OURS, used, result)
            each.bodies[OURS] = round(result["bytes"] / result["requests"])
            tails[id(each)].append(result["p99"] / 1000)
        for server in list(servers):
            try:
                row.note(server.name, *server.measure(chosen, bench.options.seconds))
            except FAILURES as error:
                servers.remove(server)
                row.micros.pop(server.name, None)
                row.rates.pop(server.name, None)
                leave_out(bench, server, error)
        say(f"round {number + 1}, {row.title}: " + ", ".join(f"{n} {v[-1]:.0f} us" for n, v in row.micros.items()))
    for server in servers:
        if server.child:
            stop(server.child)
        bench.notes.append(f"{title}, {server.name}: {server.told}.")
    for each, _, _ in mixes:
        bench.notes.append(f"{each.title}: p99 of {spread(tails[id(each)])} ms with {CONNECTIONS} connections.")
    return [each for each, _, _ in mixes]
