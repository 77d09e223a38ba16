#!/usr/bin/env python3
"""Measures what a publication writes to the disk: a publisher beside a mirror without `[publish]`, of the same origin.

    cargo build --release --locked
    python3 benches/publish_bytes.py                     # 1,000,000 listings with details, about 6 minutes
    python3 benches/publish_bytes.py --listings 20000

In each round five listings change; both refresh, fetch the details, and publish, until neither writes any more. The object
store is a directory on the same disk, and counts. Needs Linux, two cores, and 20 KiB of disk for each listing under the
temporary directory. Everything runs on loopback, on free ports; all that was started is stopped at the end. Prints a
report in Markdown.
"""

import os
import shutil
import statistics
import time

from measure import tools
from measure.bench import argument_parser, begin
from measure.mirror import Grandstand, edit, start_origin
from measure.processes import cpu_seconds, say, stop, wait_for
from million import head, line, settle, written
from million_details import SETS, covered

GOAL = 1.2
# Details go out at most this long after their arrival.
BATCH = 10


def still(mirrors):
    """Until nobody has written for longer than details wait for their bundle."""
    before, since = None, time.monotonic()
    while time.monotonic() < since + BATCH:
        now = [written(mirror.child) for mirror in mirrors]
        if before != now:
            before, since = now, time.monotonic()
        time.sleep(0.5)


def round_of(origin, mirrors, listings):
    before = [(written(mirror.child), cpu_seconds(mirror.child)) for mirror in mirrors]
    edit(origin, "touch 5")
    for mirror in mirrors:
        known = mirror.status()["snapshot"]["id"]
        mirror.refresh()
        wait_for("the change", 600, lambda m=mirror, known=known: m.status()["snapshot"]["id"] != known, 0.5)
        wait_for("its details", 600, lambda m=mirror: covered(m, listings), 0.5)
    still(mirrors)
    return [(written(m.child) - wrote, cpu_seconds(m.child) - cpu) for m, (wrote, cpu) in zip(mirrors, before)]


def arguments():
    parser = argument_parser(__doc__)
    parser.add_argument("--listings", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def main():
    options = arguments()
    binary, server_core, load_core, directory = begin("grandstand-publish-bytes", options)
    origin_port, origin = start_origin(binary, load_core, directory, options.listings)
    publish = f'publish.url="file://{directory / "store"}"'
    (directory / "store").mkdir()
    mirrors = [
        Grandstand(binary, server_core, directory / "mirror", origin_port, *SETS),
        Grandstand(binary, server_core, directory / "publisher", origin_port, *SETS, publish),
    ]
    for mirror in mirrors:
        say("first crawl ...")
        mirror.start()
        wait_for("the start", 120, lambda m=mirror: m.status(), 0.5)
        wait_for("all details", 7200, lambda m=mirror: m.status()["details"] and covered(m, options.listings), 1)
        settle(mirror)
    wait_for("the full bundle", 600, lambda: (directory / "store" / "head.json").exists(), 1)
    still(mirrors)
    rounds = []
    for _ in range(options.rounds):
        rounds.append(round_of(origin, mirrors, options.listings))
        say(f"  {rounds[-1]}")
    for mirror in mirrors:
        stop(mirror.child)
    stop(origin)
    shutil.rmtree(directory)
    ratios = [publisher[0] / mirror[0] for mirror, publisher in rounds]
    ratio = statistics.median(ratios)
    print(f"* Command: `{tools.command_line()}`; {options.listings:,} listings, {options.rounds} rounds, medians (least-most).")
    print(f"* Machine: {tools.machine()}. Load average at the end: {os.getloadavg()[0]:.1f}.")
    print(f"* Version: {tools.fingerprint(binary)}.\n")
    print(head("five changed", ["MiB written", "s of CPU"]))
    for title, who in [("mirror", 0), ("publisher", 1)]:
        cells = [
            f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
            for values in zip(*(found[who] for found in rounds))
        ]
        print(line(title, cells))
    verdict = "met" if ratio <= GOAL else "**missed**"
    print(f"\nRatio of the bytes: {ratio:.2f} ({min(ratios):.2f}-{max(ratios):.2f}); goal {GOAL}: {verdict}.")


if __name__ == "__main__":
    main()
