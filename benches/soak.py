#!/usr/bin/env python3
"""Runs grandstand for an hour under everything at once, and shows whether memory, files, threads and disk stay flat.

    cargo build --release --locked
    python3 benches/soak.py --write                      # an hour; the report and its curves go to benches/runs/
    python3 benches/soak.py --minutes 5                  # a look

A mirror of 5,000 venues with a refresh every 5 s and one limit in Redis is asked over HTTP/1.1 and HTTP/2: a hot page,
queries never seen before, conditional requests, pages and files, and one client far over its limit. Beside that the
origin changes every 10 s, fails one minute in five, and grandstand is reloaded, rolled back and released, exports a
bundle and publishes to a store, while Redis is restarted. What this grandstand cannot do yet is left out and named.
The server has the first core, load and all else the second. Needs two cores and the Debian packages wrk, redis-server,
nghttp2-client and util-linux.

A curve counts as flat if the median of its last quarter is at most a tenth (and 4 MiB, 8 files, 2 threads) above that of
its second. Answers that no fault explains, and lines of the log above "info" that none explains, are listed.
"""

import collections
import datetime
import itertools
import json
import os
import random
import re
import signal
import statistics
import subprocess
import threading
import time
from html import escape
from pathlib import Path

from measure import tools
from measure.bench import argument_parser, begin
from measure.mirror import Grandstand, edit, start_origin
from measure.processes import check, cpu_seconds, free_port, resident, say, start, stop
from measure.unsteady import Relay
from measure.web import LIST, get, post

HERE = Path(__file__).resolve().parent
EVERY = 5
CURVES = {"resident": "MiB resident", "files": "open files", "threads": "threads", "disk": "MiB on disk"}
SLACK = {"resident": 4, "files": 8, "threads": 2, "disk": 4}
SPORTS = ["golf", "tennis", "baseball", "soccer", "basketball"]


class Soak:
    """What runs, and what was seen of it."""

    def __init__(self, options, directory, cores):
        self.options, self.directory, (self.server_core, self.load_core) = options, directory, cores
        self.samples, self.answers, self.did, self.missing = [], collections.Counter(), collections.Counter(), []
        self.unexplained = collections.Counter()
        self.over = threading.Event()
        self.lock = threading.Lock()
        # Until when a fault of ours explains answers that would be errors otherwise.
        self.excused = 0.0

    def excuse(self, seconds):
        self.excused = max(self.excused, time.monotonic() + seconds)

    def set_up(self, binary):
        origin_port, self.origin = start_origin(binary, self.load_core, self.directory, self.options.listings)
        self.relay = Relay(origin_port)
        self.redis_port, self.redis = free_port(), None
        self.start_redis()
        config = self.directory / "soak.toml"
        # A cache that is full after a few minutes: what still grows then is a leak.
        config.write_text('[cache]\nmax_bytes = "32MiB"\nstale_if_error = "24h"\n')
        self.config = config
        server = Grandstand(
            binary, self.server_core, self.directory, self.relay.port, 'ttl="5s"', 'mirror.sweep_every="2m"',
            'client_ip.trusted_proxies=["127.0.0.0/8"]', 'log.format="json"',
        )
        server.sets.remove("rate_limit.requests_per_minute=100000000")
        server.sets.append("rate_limit.requests_per_minute=6000")
        server.arguments = lambda: ["--config", config, *Grandstand.arguments(server)]
        for what, sets in {
            "one limit in Redis": [f'rate_limit.store="redis://127.0.0.1:{self.redis_port}/0"'],
            "publishing to a store": [f'publish.url="file://{self.directory}/store"'],
        }.items():
            (self.directory / "store").mkdir(exist_ok=True)
            if not server.accepts(*sets):
                self.missing.append(what)
        self.server = server
        server.start()
        server.wait(600)

    def start_redis(self):
        command = ["redis-server", "--port", self.redis_port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.redis = start(command, self.load_core, self.directory / "redis.log")

    # Load

    def wrk(self, target):
        """A hot page at a modest rate, as long as the run lasts."""
        file = self.directory / "hot"
        file.write_text(target + "\n")
        while not self.over.is_set():
            seconds = min(30, max(1, int(self.left())))
            command = ["taskset", "-c", self.load_core, "wrk", "-t1", "-c8", f"-d{seconds}s", "--latency"]
            command += ["-H", "X-Forwarded-For: 10.9.9.9", "-s", HERE / "publish" / "hot.lua"]
            command += [f"http://127.0.0.1:{self.server.port}", "--", file, "40"]
            done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=False)
            found = re.search(r"^RESULT (.*)$", done.stdout, re.MULTILINE)
            if found:
                result = json.loads(found[1])
                with self.lock:
                    self.answers["h1 hot"] += result.get("requests", result.get("answers", 0))
                    if result["broken"]:
                        self.unexplained["h1 hot: broken"] += result["broken"]

    def http2(self):
        """The same page over HTTP/2."""
        while not self.over.is_set():
            command = ["taskset", "-c", self.load_core, "h2load", "-n2000", "-c4", "-m10", "--rps=50", "--connection-inactivity-timeout=30"]
            command += ["-H", "x-forwarded-for: 10.9.9.8", f"http://127.0.0.1:{self.server.port}{LIST}"]
            done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=False)
            found = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", done.stdout)
            if found:
                with self.lock:
                    self.answers["h2 hot"] += int(found[1])
                    if int(found[3]):
                        self.unexplained["h2 hot: errored"] += int(found[3])

    def mixed(self, seed):
        """Queries never seen before, conditional requests, pages and files, from many addresses."""
        dice, tags = random.Random(seed), {}
        for number in itertools.count():
            if self.over.is_set():
                return
            kind = dice.choice(["query", "query", "detail", "conditional", "conditional", "page", "file", "odd"])
            target = {
                "query": f"{LIST}?sport={dice.choice(SPORTS)}&per_page={dice.randint(1, 100)}&page={dice.randint(1, 9)}",
                "detail": f"/api/listings/{dice.randint(1, 3 * self.options.listings)}.json",
                "conditional": f"{LIST}?page={dice.randint(1, 20)}",
                "page": dice.choice(["/", "/explore?state=texas", "/openapi.json", "/docs"]),
                "file": dice.choice(["/dumps/listings.csv", "/dumps/listings.ndjson", "/dumps/listings.geojson"]),
                "odd": dice.choice([f"{LIST}?page=x", "/api/none.json", f"{LIST}?sport=none", "/nowhere"]),
            }[kind]
            if kind == "file" and number % 20:
                continue
            fields = {"X-Forwarded-For": f"10.{seed}.{dice.randint(0, 255)}.{dice.randint(0, 255)}"}
            fields["Accept-Encoding"] = dice.choice(["", "gzip", "br", "zstd"])
            if kind == "page":
                fields["Accept"] = "text/html"
            if kind == "conditional" and target in tags:
                fields["If-None-Match"] = tags[target]
            self.ask(kind, target, fields, tags)
            time.sleep(0.01)

    def greedy(self):
        """One client far over its limit."""
        while not self.over.is_set():
            self.ask("greedy", LIST, {"X-Forwarded-For": "10.8.8.8"}, {})
            time.sleep(0.004)

    def ask(self, kind, target, fields, tags):
        try:
            status, headers, _ = get(self.server.port, target, fields)
        except (OSError, ValueError) as error:
            status, headers = type(error).__name__, {}
        with self.lock:
            self.answers[f"{kind} {status}"] += 1
            expected = {200, 304} if kind in ("query", "conditional", "page", "file") else {200, 404, 400, 429}
            if status not in expected and time.monotonic() > self.excused:
                self.unexplained[f"{kind} {target if kind == 'odd' else ''}: {status}"] += 1
        if kind == "conditional" and headers.get("ETag"):
            tags[target] = headers["ETag"]

    # What happens meanwhile

    def changes(self):
        while not self.over.wait(10):
            self.did["changes of the origin"] += 1
            edit(self.origin, "touch 5")

    def outages(self):
        while not self.over.wait(240 if self.options.minutes > 6 else 60):
            self.did["minutes without the origin"] += 1
            self.excuse(60 + 15)
            self.relay.fail()
            self.over.wait(60 if self.options.minutes > 6 else 15)
            self.relay.work()

    def operator(self):
        """By turns: a reload, a rollback and its release, a bundle, a restart of Redis."""
        actions = [self.reload, self.roll_back, self.export, self.restart_redis]
        for number in itertools.count():
            if self.over.wait(20):
                return
            actions[number % len(actions)]()

    def reload(self):
        text = self.config.read_text()
        self.config.write_text(text.replace("24h", "23h") if "24h" in text else text.replace("23h", "24h"))
        status = post(self.server.admin, "/reload")
        if status == 404:
            if "reload" not in self.missing:
                self.missing.append("reload")
            return
        self.did["reloads"] += 1
        if status != 200:
            self.unexplained[f"reload: {status}"] += 1

    def roll_back(self):
        kept = json.loads(get(self.server.admin, "/snapshots")[2])
        older = [one["id"] for one in kept["snapshots"] if one["id"] != kept["newest"]]
        if not older:
            return
        status = post(self.server.admin, f"/snapshots/{older[-1]}/rollback")
        self.did[f"rollbacks ({status})"] += 1
        self.over.wait(3)
        self.did[f"releases ({post(self.server.admin, '/snapshots/release')})"] += 1

    def export(self):
        status, _, body = get(self.server.admin, "/bundle", timeout=120)
        self.did[f"bundles ({status})"] += 1
        if status != 200 or not body:
            self.unexplained[f"bundle: {status}"] += 1

    def restart_redis(self):
        if "one limit in Redis" in self.missing:
            return
        stop(self.redis, signal.SIGKILL)
        self.over.wait(2)
        self.start_redis()
        self.did["restarts of Redis"] += 1

    # What is seen

    def sample(self, began):
        pid = self.server.child.pid
        files = len(os.listdir(f"/proc/{pid}/fd"))
        threads = len(os.listdir(f"/proc/{pid}/task"))
        data = self.directory / "data"
        disk = sum(file.stat().st_blocks * 512 for file in data.rglob("*") if file.is_file()) / (1 << 20)
        self.samples.append({
            "at": time.monotonic() - began, "resident": resident(self.server.child)[0], "files": files,
            "threads": threads, "disk": disk, "cpu": cpu_seconds(self.server.child),
        })

    def left(self):
        return self.until - time.monotonic()

    def run(self):
        began = time.monotonic()
        self.until = began + 60 * self.options.minutes
        work = [
            (self.wrk, (LIST + "?per_page=50",)), (self.http2, ()), (self.greedy, ()), (self.changes, ()), (self.outages, ()),
            (self.operator, ()), *((self.mixed, (seed,)) for seed in (1, 2)),
        ]
        threads = [threading.Thread(target=function, args=given, daemon=True) for function, given in work]
        for thread in threads:
            thread.start()
        while self.left() > 0:
            check(self.server.child.poll() is None, f"grandstand ended: {self.server.log.read_text()[-3000:]}")
            self.sample(began)
            if len(self.samples) % 12 == 0:
                say(f"{self.samples[-1]['at'] / 60:.0f} min: {self.samples[-1]}")
            time.sleep(EVERY)
        self.over.set()
        for thread in threads:
            thread.join(60)

    def log_lines(self):
        """Warnings and errors of the log, by message."""
        found = collections.Counter()
        for line in self.server.log.read_text(errors="replace").splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                found[f"not JSON: {line[:100]}"] += 1
                continue
            if said.get("level") in ("WARN", "ERROR"):
                found[f"{said['level']}: {said.get('message', '')}"] += 1
        return found


def quarter(samples, key, number):
    part = len(samples) // 4
    return statistics.median(one[key] for one in samples[number * part : (number + 1) * part])


def curve(samples, key, title, left, top, width=560, height=110):
    values = [one[key] for one in samples]
    most, last = max(values) * 1.1 or 1, samples[-1]["at"] or 1
    points = " ".join(
        f"{left + width * one['at'] / last:.1f},{top + height - height * one[key] / most:.1f}" for one in samples
    )
    return (
        f'<text x="{left}" y="{top - 6}">{escape(title)}: {min(values):,.0f} to {max(values):,.0f}</text>'
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" class="frame"/>'
        f'<polyline points="{points}" class="line"/>'
    )


def picture(samples):
    style = """text { font: 13px system-ui, sans-serif; fill: #1f2328 } .page { fill: #ffffff } .frame { fill: none; stroke: #d0d7de }
    .line { fill: none; stroke: #1a7f37; stroke-width: 1.5 }
    @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .page { fill: #0d1117 } .frame { stroke: #30363d } .line { stroke: #3fb950 } }"""
    parts = [curve(samples, key, title, 20, 40 + 150 * at) for at, (key, title) in enumerate(CURVES.items())]
    size = 'viewBox="0 0 600 640" width="600" height="640"'
    title = "<title>Memory, files, threads and disk over the run</title>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{title}<style>{style}</style><rect class="page" width="600" height="640"/>{"".join(parts)}</svg>\n'


def report(soak, name):
    samples, lines = soak.samples, [f"# Soak of {soak.options.minutes:g} minutes, {datetime.date.today()}", ""]
    grew = []
    lines += [f"* Command: `python3 benches/soak.py --minutes {soak.options.minutes:g}`", f"* Machine: {tools.machine()}."]
    lines.append(f"* Left out: {', '.join(soak.missing) or 'nothing'}.")
    lines += ["", f"![Memory, files, threads and disk]({name}.svg)", "", "| | second quarter | last quarter | most | |", "|---|---:|---:|---:|---|"]
    for key, title in CURVES.items():
        second, last = quarter(samples, key, 1), quarter(samples, key, 3)
        flat = last <= second * 1.1 + SLACK[key]
        grew += [] if flat else [title]
        lines.append(f"| {title} | {second:,.1f} | {last:,.1f} | {max(one[key] for one in samples):,.1f} | {'flat' if flat else '**grows**'} |")
    cpu = (samples[-1]["cpu"] - samples[0]["cpu"]) / (samples[-1]["at"] - samples[0]["at"])
    lines += ["", f"CPU: {cpu:.2f} of a core.", "", "What was done: " + ", ".join(f"{count:,} {what}" for what, count in sorted(soak.did.items())) + "."]
    lines += ["", "Answers: " + ", ".join(f"{what}: {count:,}" for what, count in sorted(soak.answers.items())) + "."]
    lines += ["", "Answers that nothing explains: " + (", ".join(f"{what}: {count:,}" for what, count in soak.unexplained.items()) or "none") + "."]
    lines += ["", "Warnings and errors of the log:", "", *(f"* {count:,} x {what}" for what, count in soak.log_lines().most_common())]
    return "\n".join(lines) + "\n", grew


def arguments():
    parser = argument_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--listings", type=int, default=5000)
    parser.add_argument("--write", action="store_true", help="write the report to benches/runs/")
    return parser.parse_args()


def main():
    options = arguments()
    binary, *cores, directory = begin("soak", options, ["wrk", "redis-server", "h2load"])
    soak = Soak(options, directory, cores)
    soak.set_up(binary)
    say("the copy is complete; the soak begins")
    soak.run()
    name = f"{datetime.date.today()}-soak"
    text, grew = report(soak, name)
    if options.write:
        (HERE / "runs" / f"{name}.md").write_text(text)
        (HERE / "runs" / f"{name}.svg").write_text(picture(soak.samples))
    print(text)
    check(not grew and not soak.unexplained, f"grows: {grew}; unexplained: {dict(soak.unexplained)}")


if __name__ == "__main__":
    main()
