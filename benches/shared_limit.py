#!/usr/bin/env python3
"""Measures what the limit in Redis adds to the latency of hot pages, and what it costs.

    cargo build --release --locked
    python3 benches/shared_limit.py                       # ten windows of eight seconds of each kind, in turns
    python3 benches/shared_limit.py --rate 8000 --windows 20

Two mirrors of one origin serve the same page: one counts clients by itself, one in a redis-server on loopback. Windows
with the one and the other take turns; what Redis adds is the difference of their latencies. wrk keeps connections busy at
a fixed rate; each request is of one of many clients (`X-Forwarded-For`, from a trusted proxy). Servers and Redis run on
the first core, wrk and the origin on the second. A decision that the mirror makes without Redis fails the run. Needs two
cores, and the Debian packages redis-server, wrk and util-linux. Prints a report in Markdown.
"""

import json
import os
import re
import statistics
import subprocess
import time
from pathlib import Path

from measure import tools
from measure.bench import argument_parser, begin
from measure.mirror import Grandstand, start_origin
from measure.processes import check, cpu_seconds, free_port, say, start, wait_for
from measure.row import spread
from measure.web import LIST, get

HERE = Path(__file__).resolve().parent
CONNECTIONS = 16
# Microseconds that Redis may add to the 99th percentile.
GOAL = 1000
TARGET = f"{LIST}?per_page=10"


def hot(core, port, options):
    """What wrk says of the hot page."""
    delay = max(1, round(1000 * CONNECTIONS / options.rate))
    command = ["taskset", "-c", str(core), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{options.seconds}s", "--latency"]
    command += ["-s", str(HERE / "shared_limit" / "clients.lua"), f"http://127.0.0.1:{port}", "--"]
    command += [TARGET, str(options.clients), str(delay)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=options.seconds + 30)
    found = re.search(r"^RESULT (.*)$", done.stdout, re.MULTILINE)
    check(found, f"wrk said nothing:\n{done.stdout}")
    result = json.loads(found[1])
    check(result["refused"] == 0 and result["broken"] == 0, f"answers that are none: {result}")
    return result


def decisions(admin):
    """Decisions of the shared limit, by who made them."""
    text = get(admin, "/metrics")[2].decode()
    return {by: int(count) for by, count in re.findall(r'^grandstand_limit_decisions_total\{by="(\w+)"\} (\d+)$', text, re.M)}


def arguments():
    parser = argument_parser(__doc__)
    parser.add_argument("--windows", type=int, default=10, help="of each kind")
    parser.add_argument("--seconds", type=int, default=8, help="of each window")
    parser.add_argument("--rate", type=int, default=4000, help="requests a second, about")
    parser.add_argument("--clients", type=int, default=10_000)
    return parser.parse_args()


def main():
    options = arguments()
    binary, server_core, load_core, directory = begin("shared-limit", options, ["wrk", "redis-server"])

    redis_port = free_port()
    store = ["redis-server", "--port", str(redis_port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    redis = start(store, server_core, directory / "redis.log")
    ping = ["redis-cli", "-p", str(redis_port), "ping"]
    wait_for("Redis", 30, lambda: subprocess.run(ping, capture_output=True).stdout == b"PONG\n")
    origin_port, _origin = start_origin(binary, load_core, directory, 200)
    common = ['client_ip.trusted_proxies=["127.0.0.0/8"]', 'ttl="1h"', "mirror.examine_per_hour=0"]
    alone = Grandstand(binary, server_core, directory / "alone", origin_port, *common)
    shared = Grandstand(
        binary, server_core, directory / "shared", origin_port, *common, f'rate_limit.store="redis://127.0.0.1:{redis_port}/0"'
    )
    for ours in (alone, shared):
        ours.start()
        ours.wait()
        check(get(ours.port, TARGET)[0] == 200, "the hot page is not there")
    wait_for("the shared limit", 30, lambda: shared.status()["rate_limit"]["store"] == "shared")

    first = decisions(shared.admin).get("process")
    kept = {"alone": [], "shared": []}
    for number in range(options.windows):
        for name, ours in (("alone", alone), ("shared", shared)):
            before, in_redis, began = cpu_seconds(ours.child), cpu_seconds(redis), time.monotonic()
            result = hot(load_core, ours.port, options)
            each = 1e6 / result["requests"]
            result["cpu"] = (cpu_seconds(ours.child) - before) * each
            result["redis"] = (cpu_seconds(redis) - in_redis) * each
            result["rate"] = result["requests"] / (time.monotonic() - began)
            kept[name].append(result)
            say(f"window {number + 1}, {name}: {result}")
    made = decisions(shared.admin)
    check(made.get("process") == first, f"decisions without Redis: {made}")

    print(f"* Command: `{tools.command_line()}`")
    print(f"* Machine: {tools.machine()}. Load average at the end: {os.getloadavg()[0]:.1f}.")
    print(f"* Versions: {tools.fingerprint(binary)}; {tools.version('redis-server', '--version')}.")
    print(f"* About {options.rate:,} requests a second of {options.clients:,} clients; decisions: {made}.\n")
    print("| | alone | in Redis | more | goal |\n|---|---:|---:|---:|---:|")
    rows = [("p50", "p50, microseconds", 0), ("p99", "p99, microseconds", 0), ("cpu", "server, CPU microseconds a request", 1)]
    for key, title, digits in [*rows, ("redis", "Redis, CPU microseconds a request", 1), ("rate", "requests a second", 0)]:
        values = [[each[key] for each in kept[name]] for name in ("alone", "shared")]
        more = statistics.median(values[1]) - statistics.median(values[0])
        goal = GOAL if key == "p99" else ""
        lost = " **lost**" if goal and more > goal else ""
        print(f"| {title} | {spread(values[0], digits)} | {spread(values[1], digits)} | {more:.{digits}f}{lost} | {goal} |")


if __name__ == "__main__":
    main()
