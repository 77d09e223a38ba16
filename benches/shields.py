#!/usr/bin/env python3
"""Measures grandstand, nginx and Varnish as shields of the same rate-limited origin: who answers, how fresh, how fast.

    cargo build --release --locked
    python3 benches/shields.py                                   # 120 s for each shield, one after another
    python3 benches/shields.py --seconds 30 --outage 5 --only grandstand

The origin is the sample origin behind a gate that this script is: 60 requests in any trailing 60 s (then 429 with
`Retry-After`), a delay for each answer, a share of 503, an outage in which it drops every connection, and
`Cache-Control: max-age` short enough for revalidation to happen within the run. The gate stamps each body and `ETag`
with an edition that grows now and then, resource by resource, so that what a client gets can be told apart.

The load is open: the same seeded sequence at a fixed rate for each shield, from several client addresses that keep
their connections open, Zipf-distributed over the URL space of the API, cold at the start. Some requests send the
`ETag` that their client got before. Prints a report in Markdown. Needs two cores, Linux (all of 127.0.0.0/8 is
loopback), and the Debian packages nginx-light, varnish and util-linux.

*Answered*: 200 or 304 with an edition of that resource. *Fresh*: the origin confirmed that edition (200 or 304) no
more than max-age before it reached the client; 1 s of grace. Neither trusts what the shield says of itself. Both are
shares of all requests. Latency counts from the instant at which a request was due, and only for those answered. A row
is lost where another shield is better by more than half a point of a share, or by more than a tenth of the rest.
"""

import argparse
import asyncio
import atexit
import bisect
import collections
import itertools
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
from email.utils import formatdate
from pathlib import Path

from measure.processes import check, end_on_signals, free_port, start, stop, stop_all, wait_for
from measure.tools import machine, version
from measure.web import LIST, get

TOOLS = {"nginx": "nginx-light", "varnishd": "varnish", "taskset": "util-linux"}
PARTS = Path(__file__).resolve().parent / "shields"
WINDOW = 60
GRACE = 1
# What a client waits at most; longer than what grandstand lets it wait for the budget.
PATIENCE = 20
DEFAULTS = {"page": "1", "per_page": "50"}
KNOWN = ("page", "per_page", "sport", "state", "city", "modified_since")


def canonical(target):
    """The resource, however a client or a shield spells it."""
    path, _, query = target.partition("?")
    pairs = urllib.parse.parse_qsl(query)
    kept = sorted((name, value) for name, value in pairs if name in KNOWN and DEFAULTS.get(name) != value)
    return f"{path}?{urllib.parse.urlencode(kept)}" if kept else path


# --- HTTP/1.1, as little of it as is needed --------------------------------------------------------------------------


async def read_head(reader):
    """First line and fields, names in lower case; None at the end of the connection."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = text[:-4].split("\r\n")
    fields = (line.partition(":") for line in lines)
    return first, {name.strip().lower(): value.strip() for name, _, value in fields}


async def read_body(reader, headers, status):
    if status in (204, 304):
        return b""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while True:
            size = int((await reader.readline()).split(b";")[0], 16)
            body += await reader.readexactly(size)
            await reader.readline()
            if size == 0:
                return body
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    return await reader.read()


# --- the origin ------------------------------------------------------------------------------------------------------


class Gate:
    """Stands before the sample origin: its limit, its delay, its faults, and the book of what it confirmed when."""

    def __init__(self, options, upstream):
        self.options, self.upstream, self.port = options, upstream, None
        self.dice = random.Random(options.seed + 1)
        self.began = math.inf
        self.admitted = collections.deque()
        self.statuses = collections.Counter()
        self.confirmed = collections.defaultdict(list)
        self.writers = set()

    async def open(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    def close(self):
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()

    def down(self):
        into = time.monotonic() - self.began
        return self.options.outage_at <= into < self.options.outage_at + self.options.outage

    def edition(self, resource, now):
        offset = random.Random(resource).random()
        return int(now / self.options.change_every + offset)

    def admit(self, now):
        """None, or seconds after which the next one is admitted. Refused ones do not count."""
        while self.admitted and now - self.admitted[0] >= WINDOW:
            self.admitted.popleft()
        if len(self.admitted) < self.options.limit:
            self.admitted.append(now)
            return None
        return max(1, math.ceil(WINDOW - (now - self.admitted[0])))

    async def serve(self, reader, writer):
        self.writers.add(writer)
        try:
            while head := await read_head(reader):
                method, target, _ = head[0].split(" ", 2)
                if self.down():
                    self.statuses["dropped"] += 1
                    writer.transport.abort()
                    return
                status, headers, body = await self.answer(target, head[1])
                if self.down():
                    self.statuses["dropped"] += 1
                    writer.transport.abort()
                    return
                self.statuses[status] += 1
                lines = [f"HTTP/1.1 {status} -", f"Date: {formatdate(usegmt=True)}"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                if status != 304:
                    lines.append(f"Content-Length: {len(body)}")
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (body if method == "GET" else b""))
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            # A shield that went away, or the end of the run.
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    async def answer(self, target, asked):
        json_error = {"Content-Type": "application/json"}
        wait = self.admit(time.monotonic())
        await asyncio.sleep(self.options.latency / 1000)
        if wait is not None:
            return 429, {**json_error, "Retry-After": wait}, b'{"error":"too many requests"}'
        if self.dice.random() < self.options.errors:
            return 503, json_error, b'{"error":"unavailable"}'
        status, headers, body = await asyncio.to_thread(get, self.upstream, target)
        if status != 200 or self.down():
            return status, json_error, body
        now, resource = time.monotonic(), canonical(target)
        edition = self.edition(resource, now)
        self.confirmed[resource, edition].append(now)
        tag = f"e{edition}-{headers['ETag'].strip(chr(34))}"
        ours = {"ETag": f'"{tag}"', "Cache-Control": f"public, max-age={self.options.max_age}"}
        if tag in asked.get("if-none-match", ""):
            return 304, ours, b""
        check(body.startswith(b"{"), f"{target} is no object")
        stamped = b'{"edition":%d,' % edition + body.lstrip()[1:]
        return 200, {**ours, "Content-Type": headers["Content-Type"]}, stamped

    def is_fresh(self, resource, edition, at):
        times = self.confirmed.get((resource, edition), [])
        before = bisect.bisect_right(times, at)
        return before > 0 and at - times[before - 1] <= self.options.max_age + GRACE


# --- the load --------------------------------------------------------------------------------------------------------


def url_space(port, seed):
    """All that clients may ask for, the most popular first: the entry points, then the rest in a seeded order."""
    read = lambda target: json.loads(get(port, target)[2])
    first = read(f"{LIST}?per_page=100")
    pages = [first, *(read(f"{LIST}?per_page=100&page={page}") for page in range(2, first["total_pages"] + 1))]
    ids = [item["id"] for page in pages for item in page["items"]]
    slugs = {}
    for name, kind in (("sport", "sports"), ("state", "states"), ("city", "cities")):
        slugs[name] = [term["slug"] for term in read(f"/api/{kind}.json")["items"]]
    top = [LIST, "/api/sports.json", "/api/states.json", "/api/cities.json"]
    rest = [f"{LIST}?page={page}" for page in range(2, math.ceil(len(ids) / 50) + 1)]
    rest += [f"{LIST}?{name}={slug}" for name, found in slugs.items() for slug in found]
    rest += [f"{LIST}?sport={sport}&state={state}" for sport in slugs["sport"] for state in slugs["state"]]
    rest += [f"/api/listings/{number}.json" for number in ids]
    random.Random(seed).shuffle(rest)
    return top + rest


def untidy(target, dice):
    """The same resource, spelled as another client would."""
    path, _, query = target.partition("?")
    if not path.startswith(LIST):
        return f"{path}?utm_source={dice.randrange(10)}"
    pairs = query.split("&") if query else []
    more = ["per_page=50", f"utm_source={dice.randrange(10)}", *([] if "page=" in query else ["page=1"])]
    pairs.append(dice.choice(more))
    dice.shuffle(pairs)
    return f"{path}?{'&'.join(pairs)}"


class Load:
    def __init__(self, options, space):
        dice = random.Random(options.seed)
        weights = list(itertools.accumulate(1 / rank**options.zipf for rank in range(1, len(space) + 1)))
        self.plan = []
        for number in range(int(options.seconds * options.rate)):
            target = space[bisect.bisect(weights, dice.random() * weights[-1])]
            spelled = untidy(target, dice) if dice.random() < options.untidy else target
            conditional = dice.random() < options.conditional
            client = f"127.0.1.{dice.randint(1, options.clients)}"
            self.plan.append((number / options.rate, client, spelled, conditional))

    def distinct(self):
        return len({canonical(target) for _, _, target, _ in self.plan})


class Run:
    """The load against one shield."""

    def __init__(self, load, port, gate):
        self.load, self.port, self.gate = load, port, gate
        self.idle = collections.defaultdict(list)
        self.tags, self.results = {}, []

    async def go(self):
        self.gate.began = began = time.monotonic()
        tasks = []
        for due, client, target, conditional in self.load.plan:
            await asyncio.sleep(max(0, began + due - time.monotonic()))
            tasks.append(asyncio.create_task(self.one(began + due, client, target, conditional)))
        await asyncio.gather(*tasks)
        for reader, writer in itertools.chain(*self.idle.values()):
            writer.close()

    async def one(self, due, client, target, conditional):
        try:
            status, edition = await asyncio.wait_for(self.exchange(client, target, conditional), PATIENCE)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.TimeoutError) as error:
            status, edition = type(error).__name__, None
        at = time.monotonic()
        answered = status in (200, 304) and edition is not None
        fresh = answered and self.gate.is_fresh(canonical(target), edition, at)
        self.results.append((due - self.gate.began, status, answered, fresh, at - due))

    async def exchange(self, client, target, conditional):
        tag = self.tags.get((client, target)) if conditional else None
        lines = [f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"If-None-Match: {tag}"] if tag else []
        request = ("\r\n".join(lines) + "\r\n\r\n").encode()
        while True:
            reused = bool(self.idle[client])
            if reused:
                reader, writer = self.idle[client].pop()
            else:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", self.port, local_addr=(client, 0), limit=2**20
                )
            try:
                writer.write(request)
                head = await read_head(reader)
                if head is None and reused:
                    # The shield closed it while it was idle.
                    writer.close()
                    continue
                if head is None:
                    raise ConnectionResetError
                status = int(head[0].split(" ")[1])
                body = await read_body(reader, head[1], status)
            except BaseException:
                writer.close()
                raise
            if head[1].get("connection", "").lower() == "close":
                writer.close()
            else:
                self.idle[client].append((reader, writer))
            break
        sent = head[1].get("etag")
        if status == 200 and sent:
            self.tags[client, target] = sent
        text = body[:200].decode(errors="replace") if status == 200 else sent or tag or ""
        found = re.search(r'"edition": ?(\d+)' if status == 200 else r'"e(\d+)-', text)
        return status, int(found[1]) if found else None


# --- the shields -----------------------------------------------------------------------------------------------------


def fill(name, directory, **names):
    text = (PARTS / name).read_text()
    for key, value in names.items():
        text = text.replace(f"@{key}@", str(value))
    file = directory / name
    file.write_text(text)
    return file


def start_grandstand(options, core, directory, origin):
    port, admin = free_port(), free_port()
    sets = [
        f'listen=["127.0.0.1:{port}"]',
        f'public_url="http://127.0.0.1:{port}"',
        f'admin.listen="127.0.0.1:{admin}"',
        f'data_dir="{directory / "data"}"',
        f'origin.url="http://127.0.0.1:{origin}"',
        f"origin.requests_per_minute={options.limit}",
        "mirror.enabled=false",
        "rate_limit.requests_per_minute=0",
        *options.set,
    ]
    command = [options.grandstand, "serve", *(part for item in sets for part in ("--set", item))]
    child = start(command, core, directory / "out.log")
    return child, port, lambda: get(admin, "/readyz")[0] == 200


def start_nginx(options, core, directory, origin, tier=""):
    port = free_port()
    # Never more than the limit in a minute: what the bucket holds, and what flows in meanwhile.
    burst = max(1, options.limit // 6)
    user = "user root;" if os.geteuid() == 0 else ""
    upstream = f"unix:{directory}/tier.sock" if tier else f"127.0.0.1:{origin}"
    file = fill(
        "nginx.conf", directory, DIR=directory, USER=user, LISTEN=f"127.0.0.1:{port}", UPSTREAM=upstream,
        ORIGIN=f"127.0.0.1:{origin}", RATE=max(1, options.limit - burst), BURST=burst - 1,
        TIER_SOCKET=f"unix:{directory}/tier.sock", MAX_AGE=options.max_age,
    )
    child = start(["nginx", "-p", directory, "-c", file], core, directory / "out.log")
    return child, port, lambda: get(port, "/ready")[0] == 204


def start_limited_nginx(options, core, directory, origin):
    return start_nginx(options, core, directory, origin, tier="yes")


def start_varnish(_options, core, directory, origin):
    port = free_port()
    file = fill("varnish.vcl", directory, PORT=origin)
    command = ["varnishd", "-F", "-j", "none", "-n", directory / "work", "-a", f"127.0.0.1:{port}", "-T", "none"]
    command += ["-f", file, "-s", "malloc,256m", "-p", "thread_pools=1", "-p", "thread_pool_min=100"]
    child = start(command, core, directory / "out.log")
    return child, port, lambda: get(port, "/ready")[0] == 204


SHIELDS = {
    "grandstand": start_grandstand,
    "nginx": start_nginx,
    "nginx, limit_req": start_limited_nginx,
    "Varnish": start_varnish,
}


# --- the report ------------------------------------------------------------------------------------------------------


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000 if values else math.nan


class Score:
    def __init__(self, options, run, gate):
        rows = run.results
        inside = [row for row in rows if options.outage_at <= row[0] < options.outage_at + options.outage]
        second = [row for row in rows if row[0] >= options.seconds / 2]
        share = lambda found, column: sum(row[column] for row in found) / len(found) if found else math.nan
        taken = [row[4] for row in rows if row[2]]
        self.answered, self.fresh = share(rows, 2), share(rows, 3)
        self.later, self.later_fresh = share(second, 2), share(second, 3)
        self.outage = share(inside, 2)
        self.p50, self.p99 = percentile(taken, 0.5), percentile(taken, 0.99)
        self.origin, self.refused = sum(gate.statuses.values()), gate.statuses[429]
        self.statuses = collections.Counter(str(row[1]) for row in rows)
        self.gate = gate.statuses


def listed(counter):
    return ", ".join(f"{name}: {number:,}" for name, number in sorted(counter.items(), key=lambda pair: str(pair[0])))


def table(scores, options):
    percent, millis, whole = (lambda x: f"{x:.1%}"), (lambda x: f"{x:.1f} ms"), (lambda x: f"{x:,}")
    # Smaller differences are the dice's: which requests get the 503s depends on the order in which they arrive.
    share_margin, latency_margin = (lambda best: best - 0.005), (lambda best: best * 1.1 + 0.5)
    rows = [
        ("answered (200/304)", "answered", percent, max),
        ("answered and fresh", "fresh", percent, max),
        ("answered, second half", "later", percent, max),
        ("answered and fresh, second half", "later_fresh", percent, max),
        (f"answered, during the outage of {options.outage:g} s", "outage", percent, max),
        ("latency of those answered, p50", "p50", millis, min),
        ("latency of those answered, p99", "p99", millis, min),
        ("requests that reached the origin", "origin", whole, None),
        ("429s that the origin had to send", "refused", whole, min),
    ]
    lines = ["| | " + " | ".join(scores) + " |", "|---|" + "---:|" * len(scores)]
    for title, field, show, best in rows:
        values = {name: getattr(score, field) for name, score in scores.items()}
        ours = values.get("grandstand")
        lost = False
        if best and ours is not None:
            first = best(value for value in values.values() if not math.isnan(value))
            lost = ours < share_margin(first) if best is max else ours > latency_margin(first)
        title = f"**{title}**" if lost else title
        cells = [show(value) + (" **lost**" if lost and name == "grandstand" else "") for name, value in values.items()]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


# --- the run ---------------------------------------------------------------------------------------------------------


async def measure(name, options, core, directory, upstream, load):
    gate = Gate(options, upstream)
    await gate.open()
    directory.mkdir()
    child, port, ready = SHIELDS[name](options, core, directory, gate.port)
    try:
        await asyncio.to_thread(wait_for, name, 30, ready)
        # Nothing of what readiness took is part of the run.
        gate.admitted.clear()
        gate.statuses.clear()
        run = Run(load, port, gate)
        await run.go()
        check(child.poll() is None, f"{name} ended:\n{Path(child.log).read_text()[-2000:]}")
        return Score(options, run, gate)
    finally:
        stop(child)
        gate.close()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--seconds", type=float, default=120, help="of load for each shield (%(default)s)")
    add("--rate", type=float, default=50, help="requests a second (%(default)s)")
    add("--clients", type=int, default=16, help="client addresses (%(default)s)")
    add("--zipf", type=float, default=1.1, help="exponent (%(default)s)")
    add("--conditional", type=float, default=0.2, help="share that sends the ETag it got before (%(default)s)")
    add("--untidy", type=float, default=0.0, help="share that spells the query in another way (%(default)s)")
    add("--listings", type=int, default=2000, help="of the sample origin (%(default)s)")
    add("--limit", type=int, default=60, help="requests that the origin takes in any 60 s (%(default)s)")
    add("--latency", type=float, default=100, help="of the origin, in ms (%(default)s)")
    add("--errors", type=float, default=0.05, help="share of 503 (%(default)s)")
    add("--max-age", type=int, default=20, help="seconds for which the origin's answers are fresh (%(default)s)")
    add("--change-every", type=float, default=90, help="seconds between the editions of a resource (%(default)s)")
    add("--outage", type=float, default=10, help="seconds in which the origin drops every connection (%(default)s)")
    add("--outage-at", type=float, help="when it begins; default: at 60 %% of the run")
    add("--seed", type=int, default=1)
    add("--only", action="append", choices=list(SHIELDS), help="these shields")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="more settings for grandstand")
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    add("--grandstand", default=f"{target}/release/grandstand", help="the binary (%(default)s)")
    options = parser.parse_args()
    options.grandstand = Path(options.grandstand).resolve()
    if options.outage_at is None:
        options.outage_at = options.seconds * 0.6
    return options


def main():
    options = arguments()
    names = options.only or list(SHIELDS)
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
    check(not missing, f"apt-get install {' '.join(missing)}")
    check(options.grandstand.exists(), f"{options.grandstand} does not exist: cargo build --release --locked")
    cores = sorted(os.sched_getaffinity(0))
    check(len(cores) >= 2, "two cores are needed")
    os.sched_setaffinity(0, {cores[1]})
    end_on_signals()
    scratch = tempfile.TemporaryDirectory(prefix="shields-")
    directory = Path(scratch.name)
    atexit.register(scratch.cleanup)
    atexit.register(stop_all)

    upstream = free_port()
    command = [options.grandstand, "origin", "--listen", f"127.0.0.1:{upstream}", "--listings", options.listings]
    start([*command, "--until-stdin-closes"], cores[1], directory / "origin.log", stdin=subprocess.PIPE)
    wait_for("the origin", 60, lambda: get(upstream, LIST)[0] == 200)
    space = url_space(upstream, options.seed)
    load = Load(options, space)

    scores = {}
    for number, name in enumerate(names):
        print(f"{name}: {options.seconds:g} s ...", file=sys.stderr, flush=True)
        scores[name] = asyncio.run(measure(name, options, cores[0], directory / str(number), upstream, load))

    print(f"* Command: `{' '.join(['python3 benches/shields.py', *sys.argv[1:]])}`")
    print(f"* Machine: {machine()}.")
    varnish = re.search(r"varnish-[\d.]+", version("varnishd", "-V"))[0]
    names = [version(str(options.grandstand), "--version"), version("nginx", "-v").removeprefix("nginx version: ")]
    print(f"* Versions: {'; '.join([*names, varnish])}.")
    print(f"* Load: {len(load.plan):,} requests at {options.rate:g}/s from {options.clients} addresses for")
    distinct = f"{load.distinct():,} of {len(space):,} resources"
    print(f"  {distinct}, Zipf {options.zipf:g}, {options.conditional:.0%} conditional,")
    print(f"  {options.untidy:.0%} spelled in another way; seed {options.seed}. Cold at the start.")
    print(f"* Origin: {options.limit} requests a minute, {options.latency:g} ms, {options.errors:.0%} of 503,")
    print(f"  `max-age={options.max_age}`, a new edition of each resource every {options.change_every:g} s, away from")
    print(f"  {options.outage_at:g} s for {options.outage:g} s.\n")
    print(table(scores, options))
    print("\nWhat clients got, and what the origin sent:\n")
    for name, score in scores.items():
        print(f"* {name}: {listed(score.statuses)}. Origin: {listed(score.gate)}.")


if __name__ == "__main__":
    main()
