#!/usr/bin/env python3
"""Measures the dumps of a mirror: how long the first client waits, how long the next one, and what memory they take.

    cargo build --release --locked
    python3 benches/dumps.py                          # 100,000 listings with their details
    python3 benches/dumps.py --listings 1000000

Needs Linux, two cores, and disk under the temporary directory: about 8 KiB for each listing. Everything runs on loopback, on
free ports; all that was started is stopped at the end. Prints a report in Markdown.
"""

import http.client
import os
import time

from measure import tools
from measure.bench import argument_parser, begin
from measure.mirror import Grandstand, start_origin
from measure.processes import check, peak, reset_peak, resident, say
from million import head, line

DUMPS = ["listings.ndjson", "listings.csv", "listings.geojson", "details.ndjson", "details.csv"]
CODINGS = ["identity", "gzip", "zstd"]
SETS = ["mirror.examine_per_hour=0", 'ttl="10h"']


def download(port, dump, coding):
    """Seconds to the first byte and to the last, and the length. One that waits for others too long is asked for again."""
    began = time.monotonic()
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("GET", f"/dumps/{dump}", headers={"Accept-Encoding": coding})
        answer = connection.getresponse()
        if answer.status == 503 and time.monotonic() - began < 1800:
            answer.read()
            time.sleep(int(answer.headers["Retry-After"]))
            continue
        check(answer.status == 200, f"{dump}: status {answer.status}")
        first, length = time.monotonic() - began, 0
        while piece := answer.read(1 << 20):
            length += len(piece)
        connection.close()
        return first, time.monotonic() - began, length


def measure(mirror):
    """A row for each dump in each coding."""
    rows = []
    for dump in DUMPS:
        for coding in CODINGS:
            say(f"{dump}, {coding} ...")
            reset_peak(mirror.child)
            before = resident(mirror.child)[0]
            first, _, length = download(mirror.port, dump, coding)
            again, whole, _ = download(mirror.port, dump, coding)
            rows.append((f"{dump}, {coding}", length, first, again, whole, before, peak(mirror.child)))
    return rows


def arguments():
    parser = argument_parser(__doc__)
    parser.add_argument("--listings", type=int, default=100_000)
    parser.add_argument("--without-details", action="store_true", help="fetch none: the dump of the details is empty")
    return parser.parse_args()


def main():
    options = arguments()
    binary, server_core, load_core, directory = begin("grandstand-dumps", options)

    origin_port, _origin = start_origin(binary, load_core, directory, options.listings)
    sets = [*SETS, *(['mirror.details="on-demand"'] if options.without_details else [])]
    mirror = Grandstand(binary, server_core, directory / "mirror", origin_port, *sets)
    say("crawl ...")
    mirror.start()
    mirror.wait(7200)
    rows = measure(mirror)
    print(f"* Command: `{tools.command_line()}`; {options.listings:,} listings.")
    print(f"* Machine: {tools.machine()}. Load average at the end: {os.getloadavg()[0]:.1f}.")
    print(f"* Version: {tools.fingerprint(binary)}.\n")
    columns = ["MB", "first client waits, s", "next one, s", "to its last byte, s", "resident before, MiB", "at most, MiB"]
    print(head("dump", columns))
    for title, length, *times, before, most in rows:
        cells = [f"{length / 1e6:,.1f}", *(f"{seconds:.2f}" for seconds in times), f"{before:,.0f}", f"{most:,.0f}"]
        print(line(title, cells))


if __name__ == "__main__":
    main()
