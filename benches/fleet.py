#!/usr/bin/env python3
"""Measures a fleet: one publisher, and many replicas of it, as processes on this machine.

    cargo build --release --locked
    python3 benches/fleet.py --write                     # 100 replicas of 10,000 listings
    python3 benches/fleet.py --write --replicas 3 --listings 1000000

A mirror publishes signed bundles to a directory, nginx serves that directory, and the replicas follow it over HTTP, each
with `replica.poll` of 10 s. Five venues change at the origin; how long each replica takes to serve the new snapshot is
read from its log, what it moved from nginx's. At the end every replica is compared with the publisher, entity tag by
entity tag. Then head.json is removed: the publisher writes a new full bundle, and every replica fetches it. Needs the
Debian packages nginx-light and minisign, and about 60 MiB of memory for each replica, up to 1 GiB with a million listings.
"""

import collections
import datetime
import json
import os
import subprocess
import time
from pathlib import Path

from measure import tools
from measure.bench import argument_parser, built, scratch
from measure.mirror import Grandstand, edit, start_origin
from measure.processes import check, cpu_seconds, free_port, peak, reset_peak, resident, say, start, wait_for
from measure.row import spread
from measure.web import LIST, get

HERE = Path(__file__).resolve().parent
POLL = 10
# Requests to an object store in US dollars for a million, and a gigabyte to the internet: list prices, 2026.
PRICES = {
    "Amazon S3": {"put": 5.00, "get": 0.40, "gigabyte": 0.09},
    "Google Cloud Storage": {"put": 5.00, "get": 0.40, "gigabyte": 0.12},
    "Azure Blob Storage": {"put": 5.00, "get": 0.40, "gigabyte": 0.087},
    "Cloudflare R2": {"put": 4.50, "get": 0.36, "gigabyte": 0.00},
}


def key_pair(directory):
    """A minisign key without a password: its file, and the public key."""
    secret, public = directory / "minisign.key", directory / "minisign.pub"
    made = subprocess.run(["minisign", "-G", "-W", "-p", public, "-s", secret], capture_output=True, check=False)
    check(made.returncode == 0, f"minisign: {made.stderr.decode()}")
    return secret, public.read_text().splitlines()[1]


def serve_directory(store, directory):
    """nginx before the store; its port and its log: the client's port, path, status and bytes of each request."""
    port, log = free_port(), directory / "nginx.log"
    config = directory / "nginx.conf"
    config.write_text(f"""
daemon off; pid {directory}/nginx.pid; worker_processes 1; error_log {directory}/nginx.error;
events {{ worker_connections 4096; }}
http {{
    log_format moved '$msec $http_user_agent $request_method $uri $status $body_bytes_sent';
    access_log {log} moved;
    server {{ listen 127.0.0.1:{port} backlog=4096; root {store}; etag on; }}
}}
""")
    nginx = "nginx" if subprocess.run(["which", "nginx"], capture_output=True).returncode == 0 else "/usr/sbin/nginx"
    start([nginx, "-c", config, "-e", directory / "nginx.error"], sorted(os.sched_getaffinity(0))[-1], directory / "nginx.out")
    return port, log


class Replica:
    """A replica, which keeps nothing but its log and its data."""

    def __init__(self, binary, core, directory, url, key, public_url):
        directory.mkdir()
        self.port, self.admin, self.log = free_port(), free_port(), directory / "log"
        sets = [
            f'listen=["127.0.0.1:{self.port}"]', f'admin.listen="127.0.0.1:{self.admin}"', f'public_url="{public_url}"',
            f'data_dir="{directory / "data"}"', f'replica.url="{url}"', f'replica.poll="{POLL}s"', f'bundle.trusted_keys=["{key}"]',
            'log.format="json"', "rate_limit.requests_per_minute=0",
        ]
        self.child = start([binary, "serve", *(part for item in sets for part in ("--set", item))], core, self.log)

    def snapshot(self):
        return get(self.port, "/api/sports.json")[1].get("Mirror-Snapshot")

    def status(self):
        return json.loads(get(self.admin, "/status")[2])

    def published(self):
        """When each snapshot was imported here, by its id: seconds since 1970."""
        found = {}
        for line in self.log.read_text().splitlines():
            said = json.loads(line) if line.startswith("{") else {}
            if said.get("message") == "snapshot imported":
                at = datetime.datetime.fromisoformat(said["timestamp"].replace("Z", "+00:00"))
                found.setdefault(said["snapshot"], at.timestamp())
        return found


def tags(port):
    """Entity tags of all kinds of answers."""
    first = json.loads(get(port, f"{LIST}?per_page=5")[2])["items"]
    targets = [LIST, f"{LIST}?page=7", f"{LIST}?state=texas", f"{LIST}?sport=golf&per_page=100"]
    targets += ["/api/sports.json", "/api/states.json", "/api/cities.json", *(f"/api/listings/{one['id']}.json" for one in first)]
    return {target: get(port, target)[1].get("ETag") for target in targets}


def moved(log, began):
    """Requests and bytes since then, by kind of object."""
    count, size = collections.Counter(), collections.Counter()
    for line in log.read_text().splitlines():
        at, *_, uri, status, sent = line.split(" ")
        if float(at) >= began:
            kind = uri.strip("/").split("/")[0] if "/" in uri.strip("/") else uri.strip("/")
            count[f"{kind} {status}"] += 1
            size[kind] += int(sent)
    return count, size


class Fleet:
    """A publisher, its store, and the replicas."""

    def __init__(self, mirror, origin, store, log, replicas):
        self.mirror, self.origin, self.store, self.log, self.replicas = mirror, origin, store, log, replicas

    def current(self):
        return get(self.mirror.port, "/api/sports.json")[1].get("Mirror-Snapshot")

    def serves(self, what, seconds, pause=1):
        """Waits until every replica serves what the publisher does now."""
        wanted = self.current()
        wait_for(what, seconds, lambda: all(one.snapshot() == wanted for one in self.replicas), pause)
        return wanted

    def each(self, size):
        return sum(size.values()) / len(self.replicas)

    def cpu(self):
        """Of the publisher, and of one replica."""
        return cpu_seconds(self.mirror.child), cpu_seconds(self.replicas[0].child)

    def change(self, row):
        """Five venues change; notes how the change spreads."""
        deltas, before, cpus, since = set(self.store.glob("delta/*.gsb")), self.current(), self.cpu(), time.time()
        edit(self.origin, "touch 5")
        wait_for("the change at the publisher", 300, lambda: self.current() != before)
        changed = time.time()
        wanted = self.serves("the change at every replica", 600)
        size = moved(self.log, since)[1]
        row["bytes until it served the change"].append(self.each(size))
        delta = sum(path.stat().st_size for path in set(self.store.glob("delta/*.gsb")) - deltas)
        check(delta, "there is no delta")
        row["delta"].append(delta)
        row["ratio"].append(self.each(size) / delta)
        # What still comes of the same change, its details above all.
        time.sleep(3 * POLL)
        self.serves("the details of the change", 600)
        size = moved(self.log, since)[1]
        for kind in ("delta", "journal", "head.json", "full"):
            row[kind + ", all"].append(size[kind] / len(self.replicas))
        row["bytes"].append(self.each(size))
        at = [one.published().get(wanted) for one in self.replicas]
        check(all(at), "a replica did not say when it imported the snapshot")
        row["delays"] += [one - since for one in at]
        row["after"].append(max(at) - changed)
        for name, now, then in zip(("publisher", "replica"), self.cpu(), cpus):
            row[name].append(now - then)
        say(f"{row['after'][-1]:.1f} s after the publisher, {row['bytes until it served the change'][-1]:,.0f} bytes each")

    def begin_again(self):
        """Removes the head. The publisher writes a full bundle, and every replica takes it."""
        (self.store / "head.json").unlink()
        for child in (self.mirror.child, self.replicas[0].child):
            reset_peak(child)
        cpus, since = self.cpu(), time.time()
        told = self.mirror.log.read_text().count("publishing a full bundle")
        wait_for("a new full bundle", 120, lambda: self.mirror.log.read_text().count("publishing a full bundle") > told)
        began = time.time()
        wait_for("the new head", 600, lambda: (self.store / "head.json").exists())
        written = time.time()
        newest = max(self.store.glob("full/*.gsb"), key=lambda path: path.stat().st_mtime)
        sequence = json.loads(json.loads((self.store / "head.json").read_text())["head"])["sequence"]
        wait_for("every replica", 600, lambda: all(one.status()["replica"]["sequence"] >= sequence for one in self.replicas))
        taken, now = time.time(), self.cpu()
        return {
            "bytes of the full bundle": f"{newest.stat().st_size:,}",
            "the publisher exports, signs and writes it, s": f"{written - began:.1f}",
            "the publisher's CPU, s": f"{now[0] - cpus[0]:.1f}",
            "the publisher's memory then, at most, MiB": f"{peak(self.mirror.child):,.0f}",
            "until every replica has taken it, s": f"{taken - written:.1f}",
            "bytes that each replica moved": f"{self.each(moved(self.log, since)[1]):,.0f}",
            "a replica's CPU, s": f"{now[1] - cpus[1]:.1f}",
            "a replica's memory then, at most, MiB": f"{peak(self.replicas[0].child):,.0f}",
        }

    def is_equal(self):
        """Whether every replica answers with the publisher's entity tags."""
        expected = tags(self.mirror.port)
        return all(tags(one.port) == expected for one in self.replicas)


def arguments():
    parser = argument_parser(__doc__)
    parser.add_argument("--replicas", type=int, default=100)
    parser.add_argument("--listings", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3, help="changes that are followed")
    parser.add_argument("--write", action="store_true", help="write the report to benches/runs/")
    return parser.parse_args()


def main():
    options = arguments()
    binary, directory = built(options.grandstand), scratch("fleet")
    cores = sorted(os.sched_getaffinity(0))
    store = directory / "store"
    store.mkdir()
    directory.chmod(0o755)
    secret, key = key_pair(directory)

    origin_port, origin = start_origin(binary, cores[-1], directory, options.listings)
    mirror = Grandstand(
        binary, cores[0], directory / "publisher", origin_port, 'ttl="10s"', f'publish.url="file://{store}"',
        f'publish.sign_key="{secret}"', 'mirror.details="on-demand"' if options.listings > 100_000 else 'mirror.details="all"',
    )
    mirror.start()
    mirror.wait(1800)
    say("the copy is complete")
    wait_for("the first head", 600, lambda: (store / "head.json").exists())
    nginx_port, log = serve_directory(store, directory)
    public_url, url = f"http://127.0.0.1:{mirror.port}", f"http://127.0.0.1:{nginx_port}"

    began = time.time()
    replicas = [
        Replica(binary, cores[number % len(cores)], directory / f"replica-{number}", url, key, public_url)
        for number in range(options.replicas)
    ]
    fleet = Fleet(mirror, origin, store, log, replicas)
    fleet.serves("the fleet", 1800, 2)
    first_seconds = time.time() - began
    say(f"the fleet is up after {first_seconds:.0f} s")
    # Details of the first data follow at most once a minute.
    held = mirror.status()["details"]["mirrored"]
    wait_for("the details at every replica", 300, lambda: all(one.status()["details"]["mirrored"] == held for one in replicas), 2)
    first = moved(log, began)[1]

    row = collections.defaultdict(list)
    for _ in range(options.rounds):
        fleet.change(row)
    # Details alone are published at most once a minute.
    wait_for("the entity tags of the publisher at every replica", 60 + 6 * POLL, fleet.is_equal, 2)
    memory = [resident(one.child)[0] for one in replicas]
    again = fleet.begin_again()
    wait_for("the entity tags of the publisher at every replica", 60 + 6 * POLL, fleet.is_equal, 2)
    lines = [
        f"# A fleet of {options.replicas}, {options.listings:,} listings, {datetime.date.today()}", "",
        f"* Command: `{tools.command_line()}`",
        f"* Machine: {tools.machine()}. Load average at the end: {os.getloadavg()[0]:.1f}.",
        f"* Version: {tools.fingerprint(binary)}.",
        f"* `ttl` of the publisher 10 s, `replica.poll` {POLL} s; five venues change.",
        "", "| | measured | goal |", "|---|---:|---:|",
        f"| from the change at the origin to a replica, s | {spread(row['delays'])} | ttl + poll + 2 |",
        f"| from the publisher to the slowest replica, s | {spread(row['after'])} | poll + 2 = {POLL + 2} |",
        f"| bytes of the delta in the store | {spread(row['delta'], 0)} | |",
        f"| bytes that each replica moved until all served the change | {spread(row['bytes until it served the change'], 0)} | |",
        f"| the same, as a multiple of the delta | {spread(row['ratio'], 2)} | 2 |",
        f"| bytes that each replica moved for a change, in about 40 s | {spread(row['bytes'], 0)} | |",
        *(f"| of these: {kind} | {spread(row[kind + ', all'], 0)} | |" for kind in ("delta", "journal", "head.json", "full")),
        f"| publisher's CPU in these 40 s, s | {spread(row['publisher'], 2)} | |",
        f"| a replica's CPU in these 40 s, s | {spread(row['replica'], 2)} | |",
        f"| from an empty disk until the last replica served, s | {first_seconds:.1f} | |",
        f"| bytes of a replica's first start | {fleet.each(first):,.0f} | |",
        f"| memory of a replica, MiB | {spread(memory)} | |",
        f"| requests to the origin, all in all | {sum(mirror.asked().values()):,} | one mirror's |",
        "", f"All {options.replicas} replicas answered with the publisher's entity tags.",
        "", "A new full bundle, after head.json was removed from the store:", "", "| | measured |", "|---|---:|",
        *(f"| {title} | {value} |" for title, value in again.items()),
        "", "What requests to a store cost in a day, by list prices: a replica that polls every 10 s asks 8,640 times, a publisher that",
        "refreshes every 4 minutes writes its head 360 times.", "",
        "| store | a replica's requests | a publisher's | 100 replicas' |", "|---|---:|---:|---:|",
    ]
    for name, price in PRICES.items():
        one, all_of_them = 8640 * price["get"] / 1e6, 360 * price["put"] / 1e6
        lines.append(f"| {name} | ${one:.4f} | ${all_of_them:.4f} | ${100 * one:.2f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        size = "-million" if options.listings == 1_000_000 else ""
        (HERE / "runs" / f"{datetime.date.today()}-fleet{size}.md").write_text(text)


if __name__ == "__main__":
    main()
