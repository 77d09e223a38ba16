#!/usr/bin/env python3
"""Measures what clients notice of a publication: the latency of hot pages at a fixed rate, with and without one.

    cargo build --release --locked
    python3 benches/publish.py                        # ten windows of two seconds of each kind, in turns
    python3 benches/publish.py --rate 2000 --windows 20

In every other window the origin's data changes and the mirror is told to refresh. wrk keeps connections busy with a mix
of hot pages, details and taxonomies, paced by a delay for each connection. Needs two cores and the Debian packages wrk
and util-linux. Everything runs on loopback, on free ports, in a temporary directory; all that was started is stopped at
the end. The server runs on the first core, wrk and the origin on the second. Prints a report in Markdown.
"""

import argparse
import atexit
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

import side_by_side as bench
from side_by_side import LIST, check, free_port, get, start, wait_for

HERE = Path(__file__).resolve().parent
CONNECTIONS = 16
GOAL = 1.2


def hot_targets(port):
    """What everybody asks for: first pages, a few filters, some details, the taxonomies."""
    items = json.loads(get(port, LIST)[2])["items"]
    pages = [f"{LIST}?page={page}" for page in range(1, 41)]
    filters = [f"{LIST}?sport={sport}" for sport in sorted({item["sport"] for item in items})[:20]]
    details = [f"/api/listings/{item['id']}.json" for item in items[:40]]
    return pages + filters + details + ["/api/sports.json", "/api/states.json"]


def tally(admin):
    """What became of replies and codings, by outcome."""
    text = get(admin, "/metrics")[2].decode()
    lines = re.findall(r'^grandstand_cache_(?:replies|codings)_total\{outcome="([^"]+)"\} (\d+)$', text, re.MULTILINE)
    return {outcome: int(count) for outcome, count in lines}


def post(port, target):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", target)
    status = connection.getresponse().status
    connection.close()
    check(200 <= status < 300, f"POST {target}: {status}")


def load(core, port, file, coding, rate, seconds, meanwhile):
    """p50 and p99 in microseconds and the answers of one window in which something may happen meanwhile."""
    delay = max(1, round(1000 * CONNECTIONS / rate))
    command = ["taskset", "-c", str(core), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency"]
    command += ["-H", f"Accept-Encoding: {coding}", "-s", str(HERE / "publish" / "hot.lua"), f"http://127.0.0.1:{port}"]
    child = subprocess.Popen(command + ["--", str(file), str(delay)], stdout=subprocess.PIPE, text=True)
    worker = threading.Timer(seconds * 0.3, meanwhile)
    worker.start()
    out, _ = child.communicate(timeout=seconds + 30)
    worker.join()
    result = json.loads(re.search(r"^RESULT (.*)$", out, re.MULTILINE)[1])
    check(result["refused"] == 0 and result["broken"] == 0, f"answers that are none: {result}")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=10, help="of each kind")
    parser.add_argument("--seconds", type=int, default=2, help="of each window")
    parser.add_argument("--rate", type=int, default=4000, help="requests per second, about")
    parser.add_argument("--listings", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=20, help="listings that change before a publication")
    parser.add_argument("--coding", default="gzip, deflate, br, zstd", help="Accept-Encoding")
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--grandstand", default=f"{target}/release/grandstand", help="the binary (%(default)s)")
    # So that another binary can be the mirror of an origin that knows how to change.
    parser.add_argument("--origin", help="the binary of the origin (the same)")
    options = parser.parse_args()

    missing = [package for tool, package in bench.PACKAGES.items() if tool in ("wrk", "taskset") and not shutil.which(tool)]
    check(not missing, f"apt-get install {' '.join(missing)}")
    binary = Path(options.grandstand).resolve()
    check(binary.exists(), f"{options.grandstand} does not exist: cargo build --release --locked")
    cores = sorted(os.sched_getaffinity(0))
    check(len(cores) >= 2, "two cores are needed")
    server_core, load_core = cores[:2]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    scratch = tempfile.TemporaryDirectory(prefix="publish-")
    directory = Path(scratch.name)
    atexit.register(scratch.cleanup)
    atexit.register(bench.stop_all)

    origin_port = free_port()
    command = [Path(options.origin or binary).resolve(), "origin", "--listen", f"127.0.0.1:{origin_port}"]
    command += ["--listings", options.listings, "--until-stdin-closes"]
    origin = start(command, load_core, directory / "origin.log", stdin=subprocess.PIPE)
    wait_for("the origin", 60, lambda: get(origin_port, LIST)[0] == 200)
    ours = bench.Grandstand(binary, server_core, directory, origin_port, 'ttl="1h"', "mirror.audit_per_hour=0")
    ours.start()
    ours.wait()
    file = directory / "hot"
    file.write_text("\n".join(hot_targets(ours.port)) + "\n")
    snapshot = lambda: get(ours.port, LIST)[1]["Mirror-Snapshot"]

    def publish():
        before = snapshot()
        origin.stdin.write(f"touch {options.changes}\n".encode())
        origin.stdin.flush()
        post(ours.admin, "/refresh")
        # Not `wait_for`, which ends the program from the main thread only.
        while snapshot() == before:
            time.sleep(0.05)

    measure = lambda meanwhile: load(
        load_core, ours.port, file, options.coding, options.rate, options.seconds, meanwhile
    )
    for _ in range(2):
        measure(lambda: None)
    quiet, busy = [], []
    before = tally(ours.admin)
    for number in range(options.windows):
        quiet.append(measure(lambda: None))
        busy.append(measure(publish))
        print(f"window {number + 1}: p99 {quiet[-1]['p99']} us, with a publication {busy[-1]['p99']} us", file=sys.stderr)
        # What a publication sets going beside the list, such as the details, ends before the next window.
        ours.wait()
    after = tally(ours.admin)

    print(f"* Command: `python3 benches/publish.py --windows {options.windows} --rate {options.rate}`")
    print(f"* Machine: {bench.machine()}. Load average: {os.getloadavg()[0]:.1f}.")
    rate = sum(each["requests"] for each in quiet) / sum(each["micros"] for each in quiet) * 1e6
    print(f"* {rate:,.0f} requests a second on {CONNECTIONS} connections; {options.changes} changes a publication;")
    print(f"  medians of {options.windows} windows of {options.seconds} s (least-most).\n")
    print("| latency, microseconds | quiet | with a publication | ratio | goal |\n|---|---:|---:|---:|---:|")
    for name in ("p50", "p99"):
        cells = [bench.spread([each[name] for each in some], 0) for some in (quiet, busy)]
        ratio = statistics.median(each[name] for each in busy) / statistics.median(each[name] for each in quiet)
        goal = f"{GOAL}" if name == "p99" else ""
        mark = " **lost**" if goal and ratio > GOAL else ""
        print(f"| {name} | {' | '.join(cells)} | {ratio:.2f}{mark} | {goal} |")
    told = ", ".join(f"{outcome} {after[outcome] - before.get(outcome, 0)}" for outcome in after)
    if told:
        print(f"\nReplies and codings meanwhile: {told}.")


if __name__ == "__main__":
    main()
