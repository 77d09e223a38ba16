#!/usr/bin/env python3
"""Measures what hostile clients cost: memory of the server, and the latency of good clients.

    cargo build --release --locked
    python3 benches/calm_listener.py                             # 5,000 connections of each kind, three rounds
    python3 benches/calm_listener.py --connections 100 --seconds 3 --rounds 1 --only "slow heads" pings
    python3 benches/calm_listener.py --control --only "slow readers"

There are three crowds of slow clients (heads that never end, answers that are hardly read, idle connections), and six
floods over HTTP/2: rapid resets, pings, settings, continuations, empty data frames, answers that a window of zero holds
up. A connection that the server ends is opened again. Hostile clients come from many addresses of loopback, so that
the limit of connections per client does not help. Beside that wrk asks for one hot page at a fixed rate. Windows with
and without hostile clients take turns. With `--control` the same clients then attack another server on the same core:
what good clients lose to those is lost to the machine, not to their server. The server runs on the first core, all load
on the second, hostile clients with the lowest priority. Needs two cores, and the Debian packages wrk and util-linux.
Prints a report in Markdown.
"""

import multiprocessing
import os
import resource
import statistics
import time

from measure import tools
from measure.bench import argument_parser, begin
from measure.hostile import FLOODS, SLOW, attack
from measure.mirror import Grandstand, start_origin
from measure.processes import check, cpu_seconds, resident, say
from measure.row import spread
from measure.steady import steady
from measure.web import LIST, get, settled

GOAL = 1.2
# Files that a process needs besides its connections.
SPARE = 500


def arguments():
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=20, help="of each window")
    parser.add_argument("--connections", type=int, default=5000, help="of each slow crowd")
    parser.add_argument("--floods", type=int, default=8, help="connections of each flood")
    parser.add_argument("--frames", type=int, default=100_000, help="of a flood, a second, at most")
    parser.add_argument("--hot-rate", type=int, default=2000, help="hot reads a second, about")
    parser.add_argument("--only", nargs="+", choices=[*SLOW, *FLOODS], default=[*SLOW, *FLOODS], metavar="KIND")
    parser.add_argument("--control", action="store_true", help="also attack another server on the same core")
    parser.add_argument("--set", action="append", default=[], help="more settings of grandstand")
    return parser.parse_args()


class Bench:
    def __init__(self, options, server, core, file):
        self.options, self.server, self.core, self.file = options, server, core, file

    def window(self):
        """Good clients alone."""
        used, began = cpu_seconds(self.server.child), time.monotonic()
        result = steady(self.core, self.server.port, self.file, self.options.hot_rate, self.options.seconds)
        result["cpu"] = (cpu_seconds(self.server.child) - used) / (time.monotonic() - began)
        result["resident"] = resident(self.server.child)[0]
        return result

    def beside(self, kind, port):
        """Good clients beside hostile ones of the server at a port: the same, and what became of those."""
        size = self.options.connections if kind in SLOW else self.options.floods
        answers, filled = multiprocessing.Queue(), multiprocessing.Event()
        told = (kind, port, size, self.options.seconds + 3, self.options.frames, self.core, filled, answers)
        hostile = multiprocessing.Process(target=attack, args=told, daemon=True)
        hostile.start()
        check(filled.wait(120), f"{kind}: the connections were not opened in time")
        result = self.window()
        result["hostile"] = answers.get(timeout=60)
        hostile.join()
        return result


def main():
    options = arguments()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    wanted = options.connections + SPARE
    check(most > wanted, f"{most} open files are too few: ulimit -Hn {wanted}")
    binary, server_core, load_core, directory = begin("calm-listener", options, ["wrk"])

    origin_port, _origin = start_origin(binary, load_core, directory, 500)
    sets = ['mirror.details="on-demand"', 'ttl="1h"', *options.set]
    target = f"{LIST}?per_page=10"

    def started(name):
        server = Grandstand(binary, server_core, directory / name, origin_port, *sets)
        server.start()
        server.wait()
        settled(server.port, target, {})
        return server

    server = started("server")
    other = started("other") if options.control else None
    file = directory / "hot"
    file.write_text(target + "\n")
    bench = Bench(options, server, load_core, file)

    calm, beside, control = [], {kind: [] for kind in options.only}, {kind: [] for kind in options.only}
    for number in range(options.rounds):
        for kind in options.only:
            calm.append(bench.window())
            beside[kind].append(bench.beside(kind, server.port))
            check(get(server.port, target)[0] == 200, f"no answer after {kind}")
            say(f"round {number + 1}: calm {calm[-1]}; {kind} {beside[kind][-1]}")
            if other:
                control[kind].append(bench.beside(kind, other.port))
                say(f"round {number + 1}: {kind} of another server {control[kind][-1]}")

    print(f"* Command: `{tools.command_line()}`")
    print(f"* Machine: {tools.machine()}. Load average at the end: {os.getloadavg()[0]:.1f}.")
    print(f"* Versions: {tools.fingerprint(binary)}; {tools.version('wrk', '-v').split(' Copyright')[0]}.")
    print(f"* Goal: p99 of good clients at most {GOAL} times that of the window before.\n")
    print("| | p50, microseconds | p99, microseconds | p99, ratio | server, cores in use | resident, MiB |")
    print("|---|---:|---:|---:|---:|---:|")

    def row(name, some, ratio):
        cells = [spread([each[key] for each in some], digits) for key, digits in (("p50", 0), ("p99", 0))]
        rest = [spread([each[key] for each in some], digits) for key, digits in (("cpu", 2), ("resident", 0))]
        print(f"| {' | '.join([name, *cells, ratio, *rest])} |")

    row("good clients alone", calm, "")
    for at, (kind, some) in enumerate(beside.items()):
        before = calm[at :: len(options.only)]
        ratio_of = lambda some, before=before: statistics.median(m["p99"] / c["p99"] for m, c in zip(some, before))
        row(kind, some, f"{ratio_of(some):.2f}{' **lost**' if ratio_of(some) > GOAL else ''}")
        if other:
            row(f"{kind} of another server", control[kind], f"{ratio_of(control[kind]):.2f}")
    print("\nWhat became of the hostile clients, in the last round:\n")
    for kind, some in beside.items():
        print(f"* {kind}: {', '.join(f'{count:,} {what}' for what, count in some[-1]['hostile'].items())}.")


if __name__ == "__main__":
    main()
