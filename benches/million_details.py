#!/usr/bin/env python3
"""Measures mirrors of 100,000 and 1,000,000 listings with details, and marks what grows faster than the data.

    cargo build --release --locked
    python3 benches/million_details.py                       # 100,000 and 1,000,000 listings
    python3 benches/million_details.py --listings 20000      # 2,000 and 20,000

First crawl, refreshes, a sweep, export, verify and import of a bundle, a delta, a rollback, the check of all hashes, dumps,
and starts. Needs Linux, two cores, and 10 KiB of disk for each listing under the temporary directory. Everything runs on
loopback, on free ports; all that was started is stopped at the end. The server runs on the first core, the origin and the
commands on the second. Prints a report in Markdown.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import time

from dumps import download
from measure import tools
from measure.bench import argument_parser, begin
from measure.mirror import Grandstand, edit, start_origin
from measure.processes import check, cpu_seconds, peak, reset_peak, resident, say, stop, wait_for
from measure.starts import starts
from measure.web import LIST, get, timeless
from million import crawl, head, line, refresh, settle, written

SETS = ["mirror.examine_per_hour=0", 'ttl="10h"']
DUMPS = [("listings.ndjson", "zstd"), ("details.ndjson", "identity"), ("details.ndjson", "zstd")]


def disk(directory):
    """MiB of the store's file: its length, and what the file system has allocated for it."""
    stat = (directory / "grandstand.redb").stat()
    return stat.st_size / 2**20, stat.st_blocks * 512 / 2**20


class Command:
    """A command of grandstand that has run: seconds, seconds of CPU, MiB at most, and what it printed."""

    def __init__(self, binary, core, *words):
        say(f"{' '.join(words[:2])} ...")
        began = time.monotonic()
        child = subprocess.Popen(
            ["taskset", "-c", str(core), str(binary), *map(str, words), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        out, errors = child.stdout.read(), child.stderr.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        check(child.returncode == 0, f"{words}: {out} {errors}")
        self.seconds, self.cpu, self.peak = time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        self.said = json.loads(out) if out.strip() else {}


class Rows:
    """Titles and figures, with the decimals that are shown."""

    def __init__(self):
        self.figures = {}

    def add(self, title, value, digits=1):
        self.figures[title] = (value, digits)
        # What a run that ends early has measured is not lost.
        say(f"  {title}: {value:,.{digits}f}")

    def command(self, title, command):
        self.add(f"{title}: s", command.seconds)
        self.add(f"{title}: s of CPU", command.cpu)
        self.add(f"{title}: MiB at most", command.peak, 0)


def by_server(rows, mirror, title, work):
    """What a server uses for something that it does for a command."""
    settle(mirror)
    reset_peak(mirror.child)
    cpu, wrote, began = cpu_seconds(mirror.child), written(mirror.child), time.monotonic()
    result = work()
    rows.add(f"{title}: s", time.monotonic() - began, 2)
    rows.add(f"{title}: server's s of CPU", cpu_seconds(mirror.child) - cpu, 2)
    rows.add(f"{title}: server's MiB written", written(mirror.child) - wrote)
    rows.add(f"{title}: server's MiB at most", peak(mirror.child), 0)
    return result


def covered(mirror, listings):
    status = mirror.status()
    return status["details"]["mirrored"] == status["details"]["of"] == listings


def first_crawl(rows, mirror, listings):
    began = time.monotonic()
    parts, _ = crawl(mirror)
    for title, part in parts.items():
        rows.add(f"first crawl, {title}: s", part["seconds"])
    wait_for("all details", 7200, lambda: covered(mirror, listings), 0.5)
    rows.add("first crawl, complete with details: s", time.monotonic() - began)
    rows.add("first crawl, complete: s of CPU", cpu_seconds(mirror.child))
    rows.add("first crawl, complete: requests", sum(mirror.asked().values()), 0)
    rows.add("first crawl, complete: MiB at most", peak(mirror.child), 0)
    rows.add("first crawl, complete: MiB written", written(mirror.child), 0)
    settle(mirror)
    rows.add("resident afterwards, MiB", resident(mirror.child)[0], 0)


def refreshes(rows, mirror, origin, listings):
    for title, edits in [("nothing new", None), ("5 changed", "touch 5"), ("5 more", "touch 5")]:
        say(f"refresh, {title} ...")
        found = refresh(mirror, origin, listings, edits)
        for name, key, digits in [("s", "seconds", 1), ("s of CPU, with the details", "cpu", 2), ("MiB written", "written", 1), ("MiB at most", "peak", 0)]:
            rows.add(f"refresh, {title}: {name}", found[key], digits)
        # Five changes cost as many requests however many listings there are.
        rows.add(f"refresh, {title}: requests", found["requests"], 0)
        rows.add(f"refresh, {title}: slowest page meanwhile, ms", found["slowest"])
        wait_for("all details", 600, lambda: covered(mirror, listings), 0.5)


def bundles(rows, mirror, origin, binary, core, directory, listings):
    """Export, verify and import, of everything and of five changes."""
    own, there = mirror.arguments(), [f"data_dir={directory / 'import'}"]
    offline = [part for item in there for part in ("--set", item)]
    full, delta = directory / "full.gsb", directory / "delta.gsb"
    by_server(rows, mirror, "export", lambda: Command(binary, core, "bundle", "export", full, *own))
    rows.add("export: MB of the bundle", full.stat().st_size / 1e6)
    rows.command("verify of the bundle", Command(binary, core, "bundle", "verify", full, *offline))
    rows.command("import into an empty directory", Command(binary, core, "bundle", "import", full, *offline))
    before = mirror.status()["snapshot"]["id"]
    settle(mirror)
    edit(origin, "touch 5")
    mirror.refresh()
    wait_for("the change", 600, lambda: mirror.status()["snapshot"]["id"] != before, 0.5)
    wait_for("its details", 600, lambda: covered(mirror, listings), 0.5)
    since = ("--since", full)
    by_server(rows, mirror, "export of a delta", lambda: Command(binary, core, "bundle", "export", delta, *since, *own))
    rows.add("export of a delta: MB", delta.stat().st_size / 1e6, 3)
    rows.command("import of a delta", Command(binary, core, "bundle", "import", delta, *offline))
    length, allocated = disk(directory / "import")
    rows.add("store of the importer, MiB: length of the file", length, 0)
    rows.add("store of the importer, MiB: allocated", allocated, 0)
    kept = Command(binary, core, "snapshot", "verify", *offline)
    rows.command("check of all hashes of the importer", kept)
    check(mirror.status()["snapshot"]["id"] in json.dumps(Command(binary, core, "snapshot", "list", *offline).said), "the importer has another snapshot")
    shutil.rmtree(directory / "import")
    full.unlink()
    return before


def rollback(rows, mirror, binary, core, back):
    own = mirror.arguments()
    for title, words in [("rollback", ("rollback", back)), ("end of the rollback", ("release",))]:
        by_server(rows, mirror, title, lambda words=words: Command(binary, core, "snapshot", *words, *own))


def dumps(rows, mirror):
    for dump, coding in DUMPS:
        title = f"dump {dump}, {coding}"
        say(f"{title} ...")

        def work(dump=dump, coding=coding):
            return download(mirror.port, dump, coding)

        _, _, length = by_server(rows, mirror, title, work)
        rows.add(f"{title}: MB", length / 1e6)


def sweep(rows, mirror, listings):
    """Looks at every page again. The server starts with a short interval for it."""
    stop(mirror.child)
    mirror.sets.append('mirror.sweep_every="45s"')
    mirror.start()
    say("sweep ...")
    wait_for("the start", 120, lambda: mirror.status()["snapshot"], 0.5)
    settle(mirror, 40)
    before, pages = sum(mirror.asked().values()), listings // 100
    wait_for("the sweep", 120, lambda: sum(mirror.asked().values()) > before + 10, 0.1)
    reset_peak(mirror.child)
    cpu, wrote, began = cpu_seconds(mirror.child), written(mirror.child), time.monotonic()
    wait_for("the end of the sweep", 3600, lambda: sum(mirror.asked().values()) >= before + pages, 0.2)
    rows.add("sweep: s", time.monotonic() - began)
    rows.add("sweep: s of CPU", cpu_seconds(mirror.child) - cpu)
    rows.add("sweep: MiB written", written(mirror.child) - wrote)
    rows.add("sweep: MiB at most", peak(mirror.child), 0)


def measure(binary, server_core, core, directory, listings, options):
    rows = Rows()
    directory.mkdir()
    origin_port, origin = start_origin(binary, core, directory, listings)
    mirror = Grandstand(binary, server_core, directory / "mirror", origin_port, *SETS)
    data = directory / "mirror" / "data"
    say(f"{listings:,} listings: first crawl ...")
    first_crawl(rows, mirror, listings)
    for title, size in zip(("length of the file", "allocated"), disk(data)):
        rows.add(f"store after the crawl, MiB: {title}", size, 0)
    refreshes(rows, mirror, origin, listings)
    back = bundles(rows, mirror, origin, binary, core, directory, listings)
    rollback(rows, mirror, binary, core, back)
    by_server(rows, mirror, "check of all hashes", lambda: Command(binary, core, "snapshot", "verify", *mirror.arguments()))
    dumps(rows, mirror)
    for title, size in zip(("length of the file", "allocated"), disk(data)):
        rows.add(f"store after all that, MiB: {title}", size, 0)
    expected = timeless(get(mirror.port, LIST)[2])
    for how in (signal.SIGTERM, signal.SIGKILL):
        taken = starts(mirror, expected, how, options.starts)
        rows.add(f"start after {how.name}: ms", statistics.median(taken), 0)
        settle(mirror)
        rows.add(f"start after {how.name}: MiB resident", resident(mirror.child)[0], 0)
        rows.add(f"start after {how.name}: MiB at most", peak(mirror.child), 0)
    sweep(rows, mirror, listings)
    stop(mirror.child)
    if options.keep:
        # With its holes, which count in the length only.
        subprocess.run(["cp", "--sparse=always", "-r", data, options.keep], check=True)
    stop(origin)
    shutil.rmtree(directory)
    return rows.figures


def arguments():
    parser = argument_parser(__doc__)
    parser.add_argument("--listings", type=int, default=1_000_000)
    parser.add_argument("--starts", type=int, default=3, help="of each kind")
    parser.add_argument("--keep", help="a directory that does not exist yet and gets the last store, to look into it")
    return parser.parse_args()


def main():
    options = arguments()
    binary, server_core, load_core, directory = begin("grandstand-million-details", options)
    sizes = [options.listings // 10, options.listings]
    found = [measure(binary, server_core, load_core, directory / str(size), size, options) for size in sizes]
    print(f"* Command: `{tools.command_line()}`.")
    print(f"* Machine: {tools.machine()}. Load average at the end: {os.getloadavg()[0]:.1f}.")
    print(f"* Version: {tools.fingerprint(binary)}.")
    settings = ", ".join(f"`{item}`" for item in [*SETS, "origin.requests_per_minute=0", 'origin.cache_ttl="1s"'])
    print(f"* Not the defaults: {settings}, and a client limit that is never reached.\n")
    print(head("", [f"{size:,}" for size in sizes] + ["factor"]))
    for title, (value, digits) in found[1].items():
        small = found[0][title][0]
        factor = value / small if small else 0
        # More than 11 times as much for 10 times the data.
        shown = f"**{factor:.1f}**" if factor > 11 else f"{factor:.1f}"
        print(line(title, [f"{small:,.{digits}f}", f"{value:,.{digits}f}", shown]))


if __name__ == "__main__":
    main()
