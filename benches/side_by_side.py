#!/usr/bin/env python3
"""Measures grandstand beside its peers: server CPU per request, all of them taken in turns.

    cargo build --release --locked
    python3 benches/side_by_side.py                      # all parts, five rounds of three seconds per cell
    python3 benches/side_by_side.py --only hot,h2 --rounds 2 --seconds 1
    python3 benches/side_by_side.py --against OTHER      # and beside another binary of grandstand
    python3 benches/side_by_side.py --write              # and keep the report and its plot in benches/runs

Parts: `hot` (objects over HTTP/1.1: nginx, Varnish, H2O, bare pingora, a loop in C), `h2` (HTTP/2 and TLS: nginx, H2O),
`start` (memory and starts), `counts` (requests to the origin), `queries` (never asked before: SQLite, Datasette, ROAPI,
json-server), `million` (queries, memory and starts at 1,000,000 listings; takes minutes to mirror, and 10 GiB).

Needs Linux, two cores and Debian's nginx-light, varnish, h2o, wrk, nghttp2-client, openssl, curl and util-linux, which
it installs when it is root, and says so otherwise. Datasette, ROAPI and json-server come from PyPI and npm into
~/.cache/grandstand-side-by-side; without them their columns are left out. Everything runs on loopback, on free ports,
in a temporary directory; all that was started is stopped at the end. Servers run on the first core with one worker
each, load and origin on the second. Prints a report in Markdown; what is measured how is in benches/measure.
"""

import argparse
import atexit
import itertools
import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from measure import counts, hot, never_seen, starts, tls, tools
from measure.mirror import Grandstand, start_origin
from measure.peers import make_certificate
from measure.plot import plot
from measure.processes import check, end_on_signals, free_port, resident, say, stop, stop_all
from measure.report import report
from measure.row import OURS
from measure.web import LIST, get

PARTS = ["hot", "h2", "start", "counts", "queries", "million"]
RUNS = Path(__file__).resolve().parent / "runs"
ON_DEMAND = 'mirror.details="on-demand"'
NO_CACHE = 'cache.max_bytes="1KiB"'


class Bench:
    """What all parts are given: options, cores, a directory, and where they put what they have to say."""

    def __init__(self, options, cores, directory):
        self.options, self.directory = options, directory
        self.server_core, self.load_core = cores[:2]
        self.notes, self.versions, self.reference = [], set(), None
        self.date = time.strftime("%Y-%m-%d")
        self.command = tools.command_line()
        # Goals that nothing was measured for: neither met nor lost.
        self.unmeasured = [f"the part `{part}`, not asked for" for part in PARTS if part not in options.only]


class Site:
    """An origin, and mirrors of it."""

    def __init__(self, bench, listings):
        self.bench, self.listings = bench, listings
        self.directory = Path(tempfile.mkdtemp(prefix=f"site-{listings}-", dir=bench.directory))
        binary = bench.options.grandstand
        self.origin_port, self.origin = start_origin(binary, bench.load_core, self.directory, listings)
        self.mirror = self.cached = self.old = self.certificate = None

    def start(self, name, *sets, patience=300, tls=False, binary=None):
        """A mirror of it, when it is covered."""
        bench = self.bench
        binary = binary or bench.options.grandstand
        mirror = Grandstand(binary, bench.server_core, self.directory / name, self.origin_port, *sets)
        if tls:
            if not self.certificate:
                self.certificate = make_certificate(self.directory)
            cert, key = self.certificate
            port = free_port()
            if mirror.accepts(f'tls.listen=["127.0.0.1:{port}"]', f'tls.cert="{cert}"', f'tls.key="{key}"'):
                mirror.tls_port = port
        began = time.monotonic()
        mirror.start()
        mirror.wait(patience)
        took = time.monotonic() - began
        say(f"{self.listings:,} listings mirrored after {took:.1f} s; {resident(mirror.child)[0]:.0f} MiB")
        return mirror

    def find_detail(self):
        """The detail whose body is nearest to 1 KiB, of those on the first page."""
        items = json.loads(get(self.mirror.port, LIST)[2])["items"]
        details = [f"/api/listings/{item['id']}.json" for item in items]
        self.detail = min(details, key=lambda path: abs(len(get(self.mirror.port, path)[2]) - 1024))

    def close(self):
        for mirror in filter(None, (self.mirror, self.cached, self.old)):
            stop(mirror.child)
        stop(self.origin)


def with_details(bench, tables, figures):
    """The parts for which everything is mirrored, details too."""
    only = bench.options.only
    if not {"hot", "h2", "start", "counts"} & set(only):
        return
    site = Site(bench, bench.options.listings)
    site.mirror = site.start("mirror", tls="h2" in only)
    first = site.mirror.asked()
    if bench.options.against and {"hot", "h2"} & set(only):
        site.old = site.start("old", tls="h2" in only, binary=bench.options.against)
    if "start" in only:
        figures += starts.just_mirrored(site, 64)
    site.find_detail()
    if "hot" in only:
        tables.append(("Hot objects, HTTP/1.1 keep-alive, 32 connections", hot.run(bench, site)))
    if "h2" in only:
        tables.append(("HTTP/2 and TLS, 32 connections", tls.run(bench, site)))
    if "start" in only:
        figures += starts.run(bench, site, 150, 64)
    if "counts" in only:
        figures += counts.run(bench, site, first)
    site.close()


def at_ten_thousand(bench, tables):
    """Never-seen queries, and the row that a million is compared with."""
    if "queries" not in bench.options.only:
        return
    site = Site(bench, bench.options.listings)
    site.mirror = site.start("mirror", ON_DEMAND, NO_CACHE)
    site.cached = site.start("cached", ON_DEMAND)
    rows = never_seen.run(bench, site, f"{site.listings:,} listings")
    tables.append((f"Queries never seen before, {site.listings:,} listings, identity", rows))
    bench.reference = rows[0].median(OURS)
    site.close()


def at_a_million(bench, tables, figures):
    if "million" not in bench.options.only:
        return
    site = Site(bench, bench.options.million)
    site.mirror = site.start("mirror", ON_DEMAND, NO_CACHE, patience=1800)
    figures += starts.just_mirrored(site, 1024)
    # Without the smaller size beside it: twice its goal.
    reference = bench.reference or never_seen.MOST
    if not bench.reference:
        bench.unmeasured.append("the cost at a million beside that at ten thousand (instead: twice the goal of that)")
    rows = never_seen.run(bench, site, f"{site.listings:,} listings", 20, 60, reference)
    tables.append((f"Queries never seen before, {site.listings:,} listings, identity", rows))
    figures += starts.run(bench, site, 3000, 1024, 3)
    site.close()


def attempt(bench, parts, run, *others):
    """Whether some parts came to their end. What is known by then is reported in any case."""
    try:
        run(bench, *others)
        return True
    except SystemExit as end:
        # A signal, not a failure.
        if not isinstance(end.code, str):
            raise
        reason = end.code
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not cost what the other parts measured
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
    say(reason)
    bench.notes.append(f"**Failed** ({parts}): {' '.join(reason.split())[:500]}")
    bench.unmeasured.append(f"what comes after the failure in {parts}")
    stop_all()
    return False


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--only", type=lambda text: text.split(","), default=PARTS, help=f"of {','.join(PARTS)} (all)")
    add("--rounds", type=int, default=5)
    add("--seconds", type=int, default=3, help="of load for each cell of each round")
    add("--listings", type=int, default=10_000)
    add("--million", type=int, default=1_000_000, help="listings of the part `million`")
    add("--skip", action="append", default=[], metavar="NAME", help="leave out a server of data, e.g. json-server, or 'bare pingora'")
    add("--write", action="store_true", help="write benches/runs/DATE.md, DATE.svg and latest.svg")
    add("--name", help="instead of the date in the names of these files; replaces what has this name")
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    add("--grandstand", default=f"{target}/release/grandstand", help="the binary (%(default)s)")
    add("--against", type=lambda path: Path(path).resolve(), help="another binary of grandstand: of `hot` and `h2`")
    add("--bare-pingora", type=Path, help="the built benches/bare_pingora.rs (default: cargo builds it)")
    options = parser.parse_args()
    unknown = set(options.only) - set(PARTS)
    check(not unknown, f"no such part: {', '.join(sorted(unknown))}")
    options.grandstand = Path(options.grandstand).resolve()
    return options


def free_name(date):
    """A run does not replace one of the same day."""
    names = itertools.chain([date], (f"{date}-{number}" for number in itertools.count(2)))
    return next(name for name in names if not (RUNS / f"{name}.md").exists())


def main():
    options = arguments()
    tools.install_programs(tools.PACKAGES)
    for binary in filter(None, (options.grandstand, options.against)):
        check(binary.exists(), f"{binary} does not exist: cargo build --release --locked")
    cores = sorted(os.sched_getaffinity(0))
    check(len(cores) >= 2, "two cores are needed")
    end_on_signals()
    scratch = tempfile.TemporaryDirectory(prefix="side-by-side-")
    atexit.register(scratch.cleanup)
    atexit.register(stop_all)
    bench = Bench(options, cores, Path(scratch.name))
    os.sched_setaffinity(0, {bench.load_core})

    tables, figures = [], []
    whole = [
        attempt(bench, "hot, h2, start, counts", with_details, tables, figures),
        attempt(bench, "queries", at_ten_thousand, tables),
        attempt(bench, "million", at_a_million, tables, figures),
    ]

    bench.machine, bench.load = tools.machine(), os.getloadavg()[0]
    bench.base_versions = tools.versions(options.grandstand)
    if options.against:
        bench.base_versions.append(f"old: {tools.fingerprint(options.against)}")
    text = report(bench, tables, figures)
    print(text)
    if options.write:
        name = options.name or free_name(bench.date)
        picture = plot(tables, f"{bench.date}, {bench.machine}, {options.rounds} rounds of {options.seconds} s.")
        link = f"\n![CPU per request]({name}.svg)\n"
        head, _, rest = text.partition("\n")
        (RUNS / f"{name}.md").write_text(f"{head}\n{link}{rest}")
        for file in (RUNS / f"{name}.svg", RUNS / "latest.svg"):
            file.write_text(picture)
        say(f"written: {RUNS / name}.md, its plot and latest.svg")
    sys.exit(0 if all(whole) else 1)


if __name__ == "__main__":
    main()
