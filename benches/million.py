#!/usr/bin/env python3
"""Measures grandstand with a million listings: the first crawl, refreshes, and the start.

    cargo build --release --locked
    python3 benches/million.py                        # a million listings, about 5 minutes
    python3 benches/million.py --listings 10000 --starts 3
    python3 benches/million.py --binary target/release/grandstand --against ../before/grandstand

Needs Linux, two cores, and some GiB of disk under the temporary directory. Everything runs on loopback, on free ports;
all that was started is stopped at the end. `--against` measures another binary with the same origin first. Prints a
report in Markdown.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from side_by_side import LIST, children, cpu_seconds, free_port, get, stop, stop_all, wait_for


def memory(child):
    """Resident now and at most, in MiB."""
    text = Path("/proc", str(child.pid), "status").read_text()
    amount = lambda name: int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) / 1024
    return amount("VmRSS"), amount("VmHWM")


def reset_peak(child):
    """Lets the peak begin anew, where the kernel does that."""
    try:
        Path("/proc", str(child.pid), "clear_refs").write_text("5")
    except OSError:
        pass


def written(child):
    """Bytes handed to the file system so far, in MiB."""
    text = Path("/proc", str(child.pid), "io").read_text()
    return int(re.search(r"^wchar: (\d+)", text, re.MULTILINE)[1]) / 2**20


def start(command, log, **options):
    with open(log, "ab") as out:
        child = subprocess.Popen([str(part) for part in command], stderr=out, start_new_session=True, **options)
    child.log = log
    children.append(child)
    return child


class Origin:
    """The sample origin, edited through its standard input."""

    def __init__(self, binary, listings, directory):
        self.port = free_port()
        command = [binary, "origin", "--listen", f"127.0.0.1:{self.port}", "--listings", listings]
        pipe = subprocess.PIPE
        command.append("--until-stdin-closes")
        self.child = start(command, directory / "origin.log", stdin=pipe, stdout=pipe, text=True)
        self.child.stdout.readline()

    def edit(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        return int(self.child.stdout.readline())


class Mirror:
    def __init__(self, binary, origin_port, directory):
        self.port, self.admin, self.directory = free_port(), free_port(), directory
        sets = [
            f'listen=["127.0.0.1:{self.port}"]',
            f'public_url="http://127.0.0.1:{self.port}"',
            f'admin.listen="127.0.0.1:{self.admin}"',
            f'data_dir="{directory / "data"}"',
            f'origin.url="http://127.0.0.1:{origin_port}"',
            "origin.requests_per_minute=0",
            'origin.cache_ttl="1s"',
            'mirror.details="on-demand"',
            "mirror.audit_per_hour=0",
            'ttl="1h"',
            "rate_limit.requests_per_minute=100000000",
        ]
        self.command = [binary, "serve", *(part for item in sets for part in ("--set", item))]
        self.child = None

    def start(self):
        self.child = start(self.command, self.directory / "mirror.log", stdout=subprocess.DEVNULL)

    def status(self):
        return json.loads(get(self.admin, "/status", timeout=60)[2])

    def requests(self):
        return sum(self.status()["origin"]["requests"].values())

    def post(self, target):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=60)
        connection.request("POST", target)
        connection.getresponse().read()
        connection.close()


class Slowest(threading.Thread):
    """Asks for a page again and again, and remembers the slowest answer: what a client sees of work in the background."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.times, self.ends = port, [], False

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        page = 0
        while not self.ends:
            page += 1
            began = time.monotonic()
            connection.request("GET", f"{LIST}?page={page % 9000 + 1}")
            connection.getresponse().read()
            self.times.append(time.monotonic() - began)
            time.sleep(0.005)
        connection.close()

    def end(self):
        self.ends = True
        self.join()
        times = sorted(self.times)
        return max(times) * 1e3, times[int(len(times) * 0.99)] * 1e3


def until(what, seconds, condition):
    """Waits, looking twice a second: a look costs the mirror something, too."""

    def look():
        result = condition()
        if not result:
            time.sleep(0.45)
        return result

    return wait_for(what, seconds, look)


def crawl(mirror):
    """The first crawl: seconds, CPU seconds, requests and peak until it is published, and until it is certain."""
    began = time.monotonic()
    mirror.start()
    rows, etas = {}, []

    def reached(certificates):
        def look():
            status = mirror.status()
            etas.append((time.monotonic() - began, status["origin"]["eta_seconds"]))
            return status if (status["snapshot"] or {}).get("certificate") in certificates else None

        return look

    for title, certificates in [
        ("published", ("provisional", "full", "incremental")),
        ("closed", ("full", "incremental")),
    ]:
        until(title, 1800, reached(certificates))
        rows[title] = {
            "seconds": time.monotonic() - began,
            "cpu": cpu_seconds(mirror.child),
            "requests": mirror.requests(),
            "peak": memory(mirror.child)[1],
            "written": written(mirror.child),
        }
    known = [(at, eta) for at, eta in etas if eta]
    return rows, known


def settle(mirror):
    """Waits until nothing is done any more, as far as CPU time tells."""
    before, quiet = cpu_seconds(mirror.child), 0
    while quiet < 3:
        time.sleep(1)
        now = cpu_seconds(mirror.child)
        quiet = quiet + 1 if now - before < 0.03 else 0
        before = now


def refresh(mirror, origin, edit):
    """One refresh, after an edit if there is one."""
    settle(mirror)
    edited = origin.edit(edit) if edit else 0
    reset_peak(mirror.child)
    snapshot = mirror.status()["snapshot"]["id"]
    refreshed = lambda: mirror.status()["confirmed_at"]
    before = {"cpu": cpu_seconds(mirror.child), "requests": mirror.requests(), "written": written(mirror.child)}
    at, slowest = refreshed(), Slowest(mirror.port)
    slowest.start()
    began = time.monotonic()
    mirror.post("/refresh")
    changed = lambda: mirror.status()["snapshot"]["id"] != snapshot
    until("the refresh", 300, changed if edit else lambda: refreshed() != at)
    seconds = time.monotonic() - began
    slow, p99 = slowest.end()
    settle(mirror)
    # What the client above cost is small beside it, and part of it.
    row = {
        "edited": edited,
        "seconds": seconds,
        "cpu": cpu_seconds(mirror.child) - before["cpu"],
        "requests": mirror.requests() - before["requests"],
        "written": written(mirror.child) - before["written"],
        "peak": memory(mirror.child)[1],
        "slowest": slow,
        "p99": p99,
    }
    return row


def idle(mirror, seconds=15):
    settle(mirror)
    before = cpu_seconds(mirror.child)
    time.sleep(seconds)
    return (cpu_seconds(mirror.child) - before) / seconds


def starts(mirror, how, rounds):
    """Milliseconds from exec to the first page of the snapshot."""
    times = []
    for _ in range(rounds):
        stop(mirror.child, how)
        began = time.monotonic()
        mirror.start()

        def answered():
            status, headers, _ = get(mirror.port, LIST, timeout=60)
            return status == 200 and headers["Mirror-Snapshot"]

        while True:
            try:
                if answered():
                    break
            except (OSError, http.client.HTTPException):
                time.sleep(0.002)
        times.append((time.monotonic() - began) * 1e3)
        time.sleep(1)
    return times


def measure(binary, origin, directory, rounds):
    directory.mkdir()
    mirror = Mirror(binary, origin.port, directory)
    result = {}
    result["crawl"], result["etas"] = crawl(mirror)
    settle(mirror)
    result["resident"] = memory(mirror.child)[0]
    result["idle"] = idle(mirror)
    result["refreshes"] = {
        title: refresh(mirror, origin, edit)
        for title, edit in [("nothing new", None), ("5 changed", "touch 5"), ("5 more", "touch 5"), ("1 gone", "remove 1")]
    }
    result["store"] = sum(path.stat().st_size for path in (directory / "data").iterdir()) / 2**20
    for how in (signal.SIGTERM, signal.SIGKILL):
        result[how.name] = starts(mirror, how, rounds)
    result["after start"] = memory(mirror.child)
    stop(mirror.child)
    return result


def report(results):
    names = list(results)
    print("| first crawl | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names))
    for part in ("published", "closed"):
        for key, unit in [("seconds", "s"), ("cpu", "s of CPU"), ("requests", "requests"), ("peak", "MiB at most"), ("written", "MiB written")]:
            cells = (f"{results[name]['crawl'][part][key]:,.0f}" for name in names)
            print(f"| {part}: {unit} | " + " | ".join(cells) + " |")
    print("| resident afterwards, MiB | " + " | ".join(f"{results[name]['resident']:,.0f}" for name in names) + " |")
    print("| idle, share of a core | " + " | ".join(f"{results[name]['idle']:.3f}" for name in names) + " |")
    print("| store, MiB | " + " | ".join(f"{results[name]['store']:,.0f}" for name in names) + " |\n")
    print("| refresh | " + " | ".join(["of", "s", "s of CPU", "requests", "MiB written", "MiB at most", "slowest answer, ms", "99 % within, ms"]) + " |")
    print("|---|---|" + "---:|" * 7)
    for title in results[names[0]]["refreshes"]:
        for name in names:
            row = results[name]["refreshes"][title]
            cells = [f"{row['seconds']:.1f}", f"{row['cpu']:.2f}", f"{row['requests']}", f"{row['written']:.1f}"]
            cells += [f"{row['peak']:,.0f}", f"{row['slowest']:.0f}", f"{row['p99']:.1f}"]
            print(f"| {title} | {name} | " + " | ".join(cells) + " |")
    print("\n| start to the first correct answer | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names))
    for how in ("SIGTERM", "SIGKILL"):
        cell = lambda times: f"{statistics.median(times):,.0f} ({min(times):,.0f}-{max(times):,.0f}) ms"
        print(f"| after {how}, median of {len(results[names[0]][how])} | " + " | ".join(cell(results[name][how]) for name in names) + " |")
    print("| resident then, and at most, MiB | " + " | ".join(f"{results[name]['after start'][0]:,.0f}, {results[name]['after start'][1]:,.0f}" for name in names) + " |")
    for name in names:
        etas = results[name]["etas"]
        some = etas[:: max(1, len(etas) // 8)]
        print(f"\nETA during the crawl, {name} (second: ETA): " + ", ".join(f"{at:.0f}: {eta}" for at, eta in some))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=Path("target/release/grandstand"))
    parser.add_argument("--against", type=Path, help="another binary, measured first")
    parser.add_argument("--listings", type=int, default=1_000_000)
    parser.add_argument("--starts", type=int, default=5)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="grandstand-million-"))
    try:
        origin = Origin(options.binary.resolve(), options.listings, directory)
        binaries = {"before": options.against, "now": options.binary} if options.against else {"now": options.binary}
        results = {name: measure(path.resolve(), origin, directory / name, options.starts) for name, path in binaries.items()}
        report(results)
    finally:
        stop_all()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
