#!/usr/bin/env python3
"""Measures a fleet: one publisher, and many replicas of it, as processes on this machine.

    cargo build --release --locked
    python3 benches/fleet.py --write                     # 100 replicas of 10,000 listings
    python3 benches/fleet.py --replicas 3 --listings 1000000 --rounds 1

A mirror publishes signed bundles to a directory, nginx serves that directory, and the replicas follow it over HTTP, each
with `replica.poll` of 10 s. Five venues change at the origin; how long each replica takes to serve the new snapshot is
read from its log, what it moved from nginx's. At the end every replica is compared with the publisher, entity tag by
entity tag. Needs the Debian packages nginx-light and minisign, and about 30 MiB of memory for each replica.
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
from measure.processes import check, cpu_seconds, free_port, resident, say, start, wait_for
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

    def details(self):
        return json.loads(get(self.admin, "/status")[2])["details"]["mirrored"]

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
    fleet = [
        Replica(binary, cores[number % len(cores)], directory / f"replica-{number}", url, key, public_url)
        for number in range(options.replicas)
    ]

    def current():
        return get(mirror.port, "/api/sports.json")[1].get("Mirror-Snapshot")

    wanted = current()
    wait_for("the fleet", 1800, lambda: all(one.snapshot() == wanted for one in fleet), 2)
    say(f"the fleet is up after {time.time() - began:.0f} s")
    # The publisher's details follow at most once a minute.
    held = json.loads(get(mirror.admin, "/status")[2])["details"]["mirrored"]
    wait_for("the details at every replica", 300, lambda: all(one.details() == held for one in fleet), 2)
    first, first_bytes = moved(log, began)

    delays, after, bytes_each, kinds, cpus = [], [], [], collections.defaultdict(list), []
    for number in range(options.rounds):
        before, cpu, since = current(), cpu_seconds(mirror.child), time.time()
        edit(origin, "touch 5")
        wait_for("the change at the publisher", 120, lambda: current() != before)
        changed, wanted = time.time(), current()
        wait_for("the change at every replica", 600, lambda: all(one.snapshot() == wanted for one in fleet), 1)
        # What still comes of the same change, its details above all.
        time.sleep(3 * POLL)
        wanted = current()
        wait_for("the details of the change", 600, lambda: all(one.snapshot() == wanted for one in fleet), 1)
        _, size = moved(log, since)
        for kind in ("delta", "journal", "head.json", "full"):
            kinds[kind].append(size[kind] / len(fleet))
        bytes_each.append(sum(size.values()) / len(fleet))
        at = [one.published().get(wanted) for one in fleet]
        check(all(at), "a replica did not say when it imported the snapshot")
        delays += [one - since for one in at]
        after.append(max(at) - changed)
        cpus.append(cpu_seconds(mirror.child) - cpu)
        say(f"round {number + 1}: {after[-1]:.1f} s after the publisher, {bytes_each[-1]:,.0f} bytes each")

    def differ():
        expected = tags(mirror.port)
        return [number for number, one in enumerate(fleet) if tags(one.port) != expected]

    # Details alone are published at most once a minute.
    wait_for("the entity tags of the publisher at every replica", 60 + 6 * POLL, lambda: not differ(), 2)
    asked = sum(mirror.asked().values())
    lines = [
        f"# A fleet of {options.replicas}, {datetime.date.today()}", "",
        f"* Command: `python3 benches/fleet.py --replicas {options.replicas} --listings {options.listings} --rounds {options.rounds}`",
        f"* Machine: {tools.machine()}.",
        f"* {options.listings:,} listings; `ttl` of the publisher 10 s, `replica.poll` {POLL} s; five venues change.",
        "", "| | measured | goal |", "|---|---:|---:|",
        f"| from the change at the origin to a replica, s | {spread(delays)} | ttl + poll + 2 |",
        f"| from the publisher to the slowest replica, s | {spread(after)} | poll + 2 = {POLL + 2} |",
        f"| bytes that each replica moved for a change, in about 40 s | {spread(bytes_each, 0)} | |",
        *(f"| of these: {kind} | {spread(kinds[kind], 0)} | |" for kind in kinds),
        f"| publisher's CPU for a change, s | {spread(cpus, 2)} | |",
        f"| bytes of a replica's first start | {sum(first_bytes.values()) / len(fleet):,.0f} | |",
        f"| memory of a replica, MiB | {spread([resident(one.child)[0] for one in fleet])} | |",
        f"| requests to the origin, all in all | {asked:,} | one mirror's |",
        "", f"All {options.replicas} replicas answered with the publisher's entity tags.",
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
        (HERE / "runs" / f"{datetime.date.today()}-fleet.md").write_text(text)


if __name__ == "__main__":
    main()
