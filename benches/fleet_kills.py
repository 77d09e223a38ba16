#!/usr/bin/env python3
"""Kills a publisher and its replica at random instants, and compares what they serve, entity tag by entity tag.

    cargo build --locked
    python3 benches/fleet_kills.py                         # 100 kills
    python3 benches/fleet_kills.py --kills 20 --seed 7 --listings 5000

In each round the origin's data changes, the publisher refreshes, and the publisher, the replica or both are killed (SIGKILL)
and started again. A client asks the replica all the time. Every answer of the replica must have the entity tag that the
same snapshot has on the publisher: one that does not is a mixture. At the end of a round both serve the same. Details,
which may follow a minute later, are compared at the end. Needs the Python standard library only. Everything runs on
loopback, on free ports, in a temporary directory.
"""

import argparse
import collections
import http.client
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

PATIENCE = 120
LIST = "/api/listings.json"
COMMON = [
    'listen=["127.0.0.1:0"]', "admin.listen=127.0.0.1:0", "public_url=http://mirror.test", "ttl=10m",
    "rate_limit.requests_per_minute=0", "log.level=warn",
]  # fmt: skip


def get(url, method="GET"):
    """Status, fields and body."""
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def wait(what, attempt):
    """Waits until an attempt gives something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if found := attempt():
                return found
        except OSError:
            pass
        time.sleep(0.05)
    sys.exit(f"waited in vain until {what}")


class Server:
    """`grandstand serve` on a data directory, which outlives the process."""

    def __init__(self, program, data, sets):
        self.words = [program, "serve"]
        for item in [*COMMON, *sets, f"data_dir={data}"]:
            self.words += ["--set", item]
        self.data, self.process = data, None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL)
        found = wait("it answers", self.found)
        self.admin, self.public = "http://" + found["admin"]["listen"], "http://" + found["listen"][0]

    def found(self):
        """The status on the socket in the data directory; a killed server's refuses."""
        try:
            with socket.socket(socket.AF_UNIX) as admin:
                admin.connect(str(Path(self.data) / "admin.sock"))
                admin.sendall(b"GET /status HTTP/1.0\r\n\r\n")
                return json.loads(admin.makefile("rb").read().partition(b"\r\n\r\n")[2])
        except OSError:
            return None

    def status(self):
        return json.loads(get(self.admin + "/status")[2])

    def snapshot(self):
        return (self.status()["snapshot"] or {}).get("id")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def tags(self, details=False):
        """Snapshot and entity tag of each target."""
        first = json.loads(get(f"{self.public}{LIST}?per_page=100")[2])
        targets = [f"{LIST}?per_page=100&page={page}" for page in range(1, first["total_pages"] + 1)]
        targets += [f"/api/{name}.json" for name in ("sports", "states", "cities")]
        if details:
            pages = [json.loads(get(self.public + target)[2])["items"] for target in targets if target.startswith(LIST)]
            targets = [f"/api/listings/{item['id']}.json" for page in pages for item in page]
        found = {}
        for target in targets:
            status, fields, _ = get(self.public + target)
            found[target] = (fields.get("mirror-snapshot"), fields.get("etag"), status)
        return found


class Watcher(threading.Thread):
    """A client that asks the replica for lists all the time, and remembers each entity tag."""

    TARGETS = [f"{LIST}?per_page=100", f"{LIST}?per_page=100&page=2", *(f"/api/{name}.json" for name in ("sports", "states", "cities"))]

    def __init__(self, replica):
        super().__init__(daemon=True)
        self.replica, self.answers, self.odd = replica, 0, collections.Counter()
        # Snapshot and target: the tags that were seen.
        self.seen, self.ends = {}, False

    def run(self):
        while not self.ends:
            target = self.TARGETS[self.answers % len(self.TARGETS)]
            try:
                status, fields, body = get(self.replica.public + target)
            except (OSError, http.client.HTTPException):
                # It is dead, or was killed in the middle of an answer.
                time.sleep(0.01)
                continue
            self.answers += 1
            if status == 200:
                self.seen.setdefault((fields.get("mirror-snapshot"), target), set()).add(fields.get("etag"))
            else:
                self.odd[status] += 1
            time.sleep(0.002)

    def compared(self, known):
        """How many of what was seen is known from the publisher. One that differs ends the run."""
        seen = dict(self.seen)
        for key, tags in seen.items():
            if len(tags | {known.get(key, min(tags))}) > 1:
                sys.exit(f"a mixture: {key} had the tags {tags}, on the publisher {known.get(key)}")
        return sum(key in known for key in seen)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="target/debug/grandstand")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--listings", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as directory:
        origin = subprocess.Popen(
            [options.program, "origin", "--listen", "127.0.0.1:0", "--listings", str(options.listings), "--until-stdin-closes"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        url, store = origin.stdout.readline().strip(), f"file://{directory}/store"
        source = [f"origin.url={url}", "origin.requests_per_minute=0", "origin.cache_ttl=1s", "mirror.examine_per_hour=0"]
        publisher = Server(options.program, f"{directory}/publisher", [*source, f"publish.url={store}"])
        replica = Server(options.program, f"{directory}/replica", [f"replica.url={store}", "replica.poll=100ms"])
        try:
            run(options, chance, origin, publisher, replica)
        finally:
            for process in (publisher.process, replica.process, origin):
                process.kill()


def run(options, chance, origin, publisher, replica):
    known, compared, began = {}, 0, time.monotonic()

    def learn(tags):
        known.update({(snapshot, target): tag for target, (snapshot, tag, _) in tags.items()})

    def expect(tags):
        nonlocal compared
        for target, (snapshot, tag, status) in tags.items():
            if status != 200 or known.get((snapshot, target), tag) != tag:
                sys.exit(f"a mixture: {target} of {snapshot} is {status} with {tag}, not {known.get((snapshot, target))}")
            compared += (snapshot, target) in known

    wait("there is data", lambda: publisher.snapshot() and replica.snapshot())
    watcher = Watcher(replica)
    watcher.start()
    kills = 0
    while kills < options.kills:
        before = publisher.snapshot()
        learn(publisher.tags())
        origin.stdin.write(f"{chance.choice(['touch', 'touch', 'touch', 'remove'])} {chance.randint(1, 5)}\n")
        origin.stdin.flush()
        origin.stdout.readline()
        get(publisher.admin + "/refresh", "POST")
        victims = chance.choice([[replica], [publisher], [publisher, replica]])
        time.sleep(chance.random() * 1.2)
        for victim in victims:
            victim.kill()
            kills += 1
            time.sleep(chance.random() * 0.3)
        for victim in victims:
            victim.start()
        wait("the replica serves", replica.snapshot)
        expect(replica.tags())
        get(publisher.admin + "/refresh", "POST")
        wait("the change is served", lambda: publisher.snapshot() not in (None, before))
        wait("the replica has it", lambda: replica.snapshot() == publisher.snapshot())
        learn(publisher.tags())
        expect(replica.tags())
        if publisher.tags() != replica.tags():
            sys.exit("they serve different things")
        watcher.compared(known)
    watcher.ends = True
    watcher.join()
    watched = watcher.compared(known)
    if set(watcher.odd) - {503}:
        sys.exit(f"a client got the statuses {dict(watcher.odd)}")
    lists = time.monotonic() - began
    get(publisher.admin + "/refresh", "POST")
    wait("the details are equal", lambda: publisher.tags(details=True) == replica.tags(details=True))
    print(f"{kills} kills in {lists:.0f} s, {compared} entity tags compared with the publisher's, all equal; details, too")
    print(
        f"a client meanwhile: {watcher.answers} answers, {watcher.odd[503]} of them 503; {len(watcher.seen)} pages of snapshots, "
        f"{watched} known from the publisher, each with one entity tag"
    )


if __name__ == "__main__":
    main()
