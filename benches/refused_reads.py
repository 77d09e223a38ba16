#!/usr/bin/env python3
"""Measures what cold reads cost that the origin's budget has no slot for, and what hot pages notice of them.

    cargo build --release --locked
    python3 benches/refused_reads.py                             # 1,000 cold reads a second for 30 s, three times
    python3 benches/refused_reads.py --rate 200 --rounds 1

grandstand is a shield whose origin allows 60 requests a minute. Each cold read asks for a resource that nobody asked
for before and comes from a network of its own (`X-Forwarded-For`, from a trusted proxy), so that the queue of reads
that wait is full all the time; each waits until its patience ends, or is refused at once because the queue is full.
Beside that wrk asks for one hot page at a fixed rate. Windows with and without cold reads take turns; what cold reads
cost is the difference of the server's CPU time. The server runs on the first core, all load and the origin on the
second, the cold readers with the lowest priority. Needs two cores, and the Debian packages wrk and util-linux. Prints
a report in Markdown.
"""

import asyncio
import collections
import json
import multiprocessing
import os
import random
import re
import statistics
import time

from measure import tools
from measure.bench import argument_parser, begin
from measure.mirror import start_origin
from measure.processes import check, cpu_seconds, free_port, resident, say, start, wait_for
from measure.row import spread
from measure.steady import steady
from measure.web import LIST, get

GOALS = {"cost": 0.1, "p99": 1.2}
# Until the queue is full: 4,096 reads, and as long as the first of them wait.
FILLS = 12


class Reader(asyncio.Protocol):
    """One connection, with one cold read at a time."""

    def __init__(self, crowd):
        self.crowd, self.head = crowd, b""

    def connection_made(self, transport):
        self.transport = transport
        self.ask()

    def ask(self):
        number = self.crowd.next_number()
        network = f"{10 + (number >> 24)}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        # By turns something that is known and something that is passed through.
        target = f"{LIST}?page={number}" if number % 2 else f"/api/cold/{number}"
        head = f"GET {target} HTTP/1.1\r\nHost: cold\r\nX-Forwarded-For: {network}\r\n\r\n"
        self.transport.write(head.encode())

    def data_received(self, data):
        self.head += data
        end = self.head.find(b"\r\n\r\n")
        if end < 0:
            return
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", self.head[:end])
        if len(self.head) < end + 4 + int(length[1]):
            return
        self.crowd.statuses[self.head[9:12].decode()] += 1
        self.head = b""
        self.crowd.idle.append(self)

    def connection_lost(self, _error):
        self.crowd.lost += 1
        if self in self.crowd.idle:
            self.crowd.idle.remove(self)


class Crowd:
    """Cold reads at a fixed rate, from as many connections as that takes."""

    def __init__(self, port, first):
        self.port, self.number = port, first
        self.idle, self.statuses, self.lost = [], collections.Counter(), 0

    def next_number(self):
        self.number += 1
        return self.number

    async def read(self, rate, seconds):
        loop, began, sent, due = asyncio.get_running_loop(), time.monotonic(), 0, 0.0
        opening = set()
        while (into := time.monotonic() - began) < seconds:
            # Strangers: each arrives at a random instant, whatever the others do.
            while due < into:
                due += random.expovariate(rate)
                sent += 1
                if self.idle:
                    self.idle.pop().ask()
                else:
                    connected = loop.create_connection(lambda: Reader(self), "127.0.0.1", self.port)
                    opening.add(task := asyncio.ensure_future(connected))
                    task.add_done_callback(opening.discard)
            await asyncio.sleep(0.001)
        return sent


def crowd(port, first, rate, seconds, core, answers):
    """A process of cold readers."""
    os.sched_setaffinity(0, {core})
    # Whoever measures gets the core at once.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    readers = Crowd(port, first)
    sent = asyncio.run(readers.read(rate, seconds))
    answers.put({"sent": sent, "lost": readers.lost, "last": readers.number, **readers.statuses})


def arguments():
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=30, help="of each window")
    parser.add_argument("--rate", type=int, default=1000, help="cold reads a second")
    parser.add_argument("--hot-rate", type=int, default=2000, help="hot reads a second, about")
    parser.add_argument("--set", action="append", default=[], help="more settings of grandstand")
    return parser.parse_args()


def main():
    options = arguments()
    binary, server_core, load_core, directory = begin("refused-reads", options, ["wrk"])

    origin_port, _origin = start_origin(binary, load_core, directory, 200)
    port, admin = free_port(), free_port()
    sets = [
        f'listen=["127.0.0.1:{port}"]', f'public_url="http://127.0.0.1:{port}"', f'admin.listen="127.0.0.1:{admin}"',
        f'data_dir="{directory / "data"}"', f'origin.url="http://127.0.0.1:{origin_port}"', "mirror.enabled=false",
        "rate_limit.requests_per_minute=100000000", 'client_ip.trusted_proxies=["127.0.0.0/8"]', 'ttl="1h"',
        *options.set,
    ]
    command = [binary, "serve", *(part for item in sets for part in ("--set", item))]
    server = start(command, server_core, directory / "out.log")
    wait_for("the shield", 30, lambda: get(admin, "/readyz")[0] == 200)
    target = f"{LIST}?per_page=10"
    check(get(port, target)[0] == 200, "the hot page is not there")
    file = directory / "hot"
    file.write_text(target + "\n")

    def waiting():
        return json.loads(get(admin, "/status")[2])["origin"]["budget"]["waiting"]

    kept, first, told = {"without": [], "with": []}, 0, []
    for number in range(options.rounds):
        for name in kept:
            if name == "with":
                answers = multiprocessing.Queue()
                seconds = FILLS + options.seconds + 2
                readers = multiprocessing.Process(
                    target=crowd, args=(port, first, options.rate, seconds, load_core, answers), daemon=True
                )
                readers.start()
                time.sleep(FILLS)
            before, began, queued = cpu_seconds(server), time.monotonic(), waiting()
            result = steady(load_core, port, file, options.hot_rate, options.seconds)
            result["cpu"] = (cpu_seconds(server) - before) / (time.monotonic() - began)
            result["waiting"], result["resident"] = (queued, waiting()), resident(server)[0]
            if name == "with":
                found = answers.get(timeout=seconds)
                readers.join()
                first = found.pop("last")
                told.append(found)
                check(found["lost"] == 0, f"connections were lost: {found}")
                # Those that still wait leave, and the window without them is quiet.
                wait_for("an empty queue", 30, lambda: waiting() == 0)
            kept[name].append(result)
            say(f"round {number + 1}, {name} cold reads: {result}")

    quiet, busy = kept["without"], kept["with"]
    print(f"* Command: `{tools.command_line()}`")
    print(f"* Machine: {tools.machine()}. Load average at the end: {os.getloadavg()[0]:.1f}.")
    print(f"* Versions: {tools.fingerprint(binary)}; {tools.version('wrk', '-v').split(' Copyright')[0]}.")
    print(f"* {options.rate:,} cold reads a second; what became of them: {told}.")
    print(f"* Waiting before and after each window: {[each['waiting'] for each in busy]}.")
    print(f"* Resident: {spread([each['resident'] for each in busy], 0)} MiB with cold reads.\n")
    cost = [more["cpu"] - less["cpu"] for more, less in zip(busy, quiet)]
    print("| | without cold reads | with | | goal |\n|---|---:|---:|---:|---:|")
    lost = " **lost**" if statistics.median(cost) > GOALS["cost"] else ""
    cells = [spread([each["cpu"] for each in some], 3) for some in (quiet, busy)]
    print(f"| server, cores in use | {' | '.join(cells)} | {spread(cost, 3)} more{lost} | {GOALS['cost']} |")
    for name in ("p50", "p99"):
        cells = [spread([each[name] for each in some], 0) for some in (quiet, busy)]
        ratio = statistics.median(each[name] for each in busy) / statistics.median(each[name] for each in quiet)
        goal = GOALS.get(name, "")
        lost = " **lost**" if goal and ratio > goal else ""
        print(f"| hot page, {name}, microseconds | {' | '.join(cells)} | {ratio:.2f}{lost} | {goal} |")


if __name__ == "__main__":
    main()
