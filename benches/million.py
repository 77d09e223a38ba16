#!/usr/bin/env python3
"""Measures grandstand with a million listings: the first crawl, refreshes, and the start.

    cargo build --release --locked
    python3 benches/million.py                        # a million listings, about 5 minutes
    python3 benches/million.py --listings 10000 --starts 3
    python3 benches/million.py --against ../before/grandstand

Needs Linux, two cores, and some GiB of disk under the temporary directory. Everything runs on loopback, on free ports;
all that was started is stopped at the end. The server runs on the first core, the origin and this script on the second.
`--against` measures another binary first, with the same origin: see `--swap` for what the order is worth. Prints a
report in Markdown.
"""

import http.client
import os
import re
import signal
import threading
import time
from pathlib import Path

from measure import tools
from measure.bench import argument_parser, begin, built
from measure.mirror import Grandstand, edit, start_origin
from measure.processes import check, cpu_seconds, peak, reset_peak, resident, say, stop, wait_for
from measure.row import spread
from measure.starts import starts
from measure.web import LIST, get, timeless

SETS = ['mirror.details="on-demand"', "mirror.examine_per_hour=0", 'ttl="1h"']
REFRESHES = [("nothing new", None), ("5 changed", "touch 5"), ("5 more", "touch 5"), ("1 gone", "remove 1")]
CRAWL = {
    "seconds": "s",
    "cpu": "s of CPU",
    "requests": "requests",
    "peak": "MiB at most",
    "written": "MiB written",
}


def written(child):
    """What the disk gets of it, in MiB so far: whole pages, and no answers to clients. A directory in memory gets nothing."""
    text = Path("/proc", str(child.pid), "io").read_text()
    return int(re.search(r"^write_bytes: (\d+)", text, re.MULTILINE)[1]) / 2**20


class Slowest(threading.Thread):
    """Asks for pages again and again, and remembers the slowest: what a client sees of work in the background."""

    def __init__(self, port, pages):
        super().__init__(daemon=True)
        self.port, self.pages, self.times, self.error, self.ends = port, pages, [], None, False

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            while not self.ends:
                target, began = f"{LIST}?page={len(self.times) % self.pages + 1}", time.monotonic()
                connection.request("GET", target)
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    raise ValueError(f"{target}: status {answer.status}")
                self.times.append(time.monotonic() - began)
                time.sleep(0.005)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.error = error
        finally:
            connection.close()

    def end(self):
        """Milliseconds: the slowest answer, and within what 99 % came."""
        self.ends = True
        self.join()
        check(self.error is None and self.times, f"a client during a refresh: {self.error!r}")
        times = sorted(self.times)
        return times[-1] * 1e3, times[int(len(times) * 0.99)] * 1e3


def until(what, seconds, condition):
    """Waits, looking twice a second: a look costs the mirror something, too."""
    return wait_for(what, seconds, condition, 0.5)


def crawl(mirror):
    """The first crawl: seconds, CPU seconds, requests and peak until it is published, and until it is certain."""
    began = time.monotonic()
    mirror.start()
    rows, etas = {}, []

    def reached(certificates):
        status = mirror.status()
        etas.append((time.monotonic() - began, status["origin"]["eta_seconds"]))
        return (status["snapshot"] or {}).get("certificate") in certificates

    certain = ("full", "incremental")
    for title, certificates in [("published", ("provisional", *certain)), ("closed", certain)]:
        until(title, 1800, lambda: reached(certificates))
        rows[title] = {
            "seconds": time.monotonic() - began,
            "cpu": cpu_seconds(mirror.child),
            "requests": sum(mirror.asked().values()),
            "peak": peak(mirror.child),
            "written": written(mirror.child),
        }
    return rows, [(at, eta) for at, eta in etas if eta]


def settle(mirror, patience=600):
    """Waits until nothing is done any more, as far as CPU time tells."""
    before, quiet, deadline = cpu_seconds(mirror.child), 0, time.monotonic() + patience
    while quiet < 3:
        check(time.monotonic() < deadline, f"grandstand is still at work after {patience} s")
        time.sleep(1)
        now = cpu_seconds(mirror.child)
        quiet = quiet + 1 if now - before < 0.03 else 0
        before = now


def refresh(mirror, origin, listings, line):
    """One refresh, after an edit if there is one."""
    settle(mirror)
    edited = edit(origin, line) if line else 0
    reset_peak(mirror.child)
    status = mirror.status()
    cpu, requests, wrote = cpu_seconds(mirror.child), sum(mirror.asked().values()), written(mirror.child)
    slowest = Slowest(mirror.port, max(1, listings // 60))
    slowest.start()
    began = time.monotonic()
    mirror.refresh()

    def is_over():
        now = mirror.status()
        if line:
            return now["snapshot"]["id"] != status["snapshot"]["id"]
        return now["confirmed_at"] != status["confirmed_at"]

    until("the refresh", 600, is_over)
    seconds = time.monotonic() - began
    slow, p99 = slowest.end()
    settle(mirror)
    # What the client above cost is small beside it, and part of it.
    return {
        "edited": edited,
        "seconds": seconds,
        "cpu": cpu_seconds(mirror.child) - cpu,
        "requests": sum(mirror.asked().values()) - requests,
        "written": written(mirror.child) - wrote,
        "peak": peak(mirror.child),
        "slowest": slow,
        "p99": p99,
    }


def idle(mirror, seconds):
    settle(mirror)
    before = cpu_seconds(mirror.child)
    time.sleep(seconds)
    return (cpu_seconds(mirror.child) - before) / seconds


def measure(binary, core, origin_port, origin, directory, options):
    mirror = Grandstand(binary, core, directory, origin_port, *SETS)
    result = {}
    say(f"{binary}: first crawl ...")
    result["crawl"], result["etas"] = crawl(mirror)
    settle(mirror)
    result["resident"] = resident(mirror.child)[0]
    result["idle"] = idle(mirror, options.idle)
    result["refreshes"] = {}
    for title, line in REFRESHES:
        say(f"refresh, {title} ...")
        result["refreshes"][title] = refresh(mirror, origin, options.listings, line)
    result["store"] = sum(path.stat().st_size for path in (directory / "data").iterdir()) / 2**20
    expected = timeless(get(mirror.port, LIST)[2])
    # What the starts are compared with is what the origin says.
    check(expected == timeless(get(origin_port, LIST)[2]), "the mirror's first page is not the origin's")
    say("starts ...")
    for how in (signal.SIGTERM, signal.SIGKILL):
        result[how.name] = starts(mirror, expected, how, options.starts)
    settle(mirror)
    result["after start"] = f"{resident(mirror.child)[0]:,.0f}, {peak(mirror.child):,.0f}"
    stop(mirror.child)
    return result


def line(title, cells):
    return f"| {title} | {' | '.join(cells)} |"


def head(title, names):
    return line(title, names) + "\n|---|" + "---:|" * len(names)


def report(results):
    names, each = list(results), list(results.values())
    print(head("first crawl", names))
    for part in ("published", "closed"):
        for key, unit in CRAWL.items():
            digits = ".1f" if key in ("seconds", "cpu") else ".0f"
            print(line(f"{part}: {unit}", [f"{result['crawl'][part][key]:,{digits}}" for result in each]))
    print(line("resident afterwards, MiB", [f"{result['resident']:,.0f}" for result in each]))
    print(line("idle, share of a core", [f"{result['idle']:.3f}" for result in each]))
    print(line("store, MiB", [f"{result['store']:,.0f}" for result in each]) + "\n")
    columns = ["s", "s of CPU", "requests", "MiB written", "MiB at most", "slowest answer, ms", "99 % within, ms"]
    print(head("refresh", ["of", *columns]))
    for title, _ in REFRESHES:
        for name in names:
            row = results[name]["refreshes"][title]
            cells = [name, f"{row['seconds']:.1f}", f"{row['cpu']:.2f}", f"{row['requests']}", f"{row['written']:.1f}"]
            cells += [f"{row['peak']:,.0f}", f"{row['slowest']:.0f}", f"{row['p99']:.1f}"]
            print(line(title, cells))
    print("\n" + head("start to the first correct answer", names))
    for how in ("SIGTERM", "SIGKILL"):
        title = f"after {how}, median of {len(each[0][how])} (least-most), ms"
        print(line(title, [spread(result[how], 0) for result in each]))
    print(line("resident then, and at most, MiB", [result["after start"] for result in each]))
    for name in names:
        etas = results[name]["etas"]
        some = ", ".join(f"{at:.0f}: {eta}" for at, eta in etas[:: max(1, len(etas) // 8)])
        print(f"\nETA during the crawl, {name} (second: ETA): {some or 'none was given'}")


def arguments():
    parser = argument_parser(__doc__)
    parser.add_argument("--against", help="another binary, measured first")
    parser.add_argument("--swap", action="store_true", help="measure the other binary last")
    parser.add_argument("--listings", type=int, default=1_000_000)
    parser.add_argument("--starts", type=int, default=5, help="of each kind")
    parser.add_argument("--idle", type=int, default=15, help="seconds of doing nothing that are watched")
    return parser.parse_args()


def main():
    options = arguments()
    places = {"before": options.against, "now": options.grandstand}
    binaries = {name: built(path) for name, path in places.items() if path}
    _, server_core, load_core, directory = begin("grandstand-million", options)

    origin_port, origin = start_origin(binaries["now"], load_core, directory, options.listings)
    order = list(binaries)[:: -1 if options.swap else 1]
    results = {
        name: measure(binaries[name], server_core, origin_port, origin, directory / name, options) for name in order
    }
    print(f"* Command: `{tools.command_line()}`; {options.listings:,} listings.")
    print(f"* Machine: {tools.machine()}. Load average at the end: {os.getloadavg()[0]:.1f}.")
    for name, path in binaries.items():
        print(f"* Version, {name}: {tools.fingerprint(path)}.")
    settings = ", ".join(f"`{item}`" for item in [*SETS, "origin.requests_per_minute=0", 'origin.cache_ttl="1s"'])
    print(f"* Not the defaults: {settings}, and a client limit that is never reached.")
    if options.against:
        print(f"* Measured one after another, `{order[0]}` first, on one origin. `{order[1]}` finds it warm, edited,")
        print("  and the machine as it is by then. What is smaller than what `--swap` changes is noise.")
    print()
    report(results)


if __name__ == "__main__":
    main()
