"""What the origin is asked: for a first mirror, for a refresh that finds nothing new, and for one cold key that a
thousand clients want at once. Mirroring as grandstand counts it (the tests count at the origin), the cold key as a slow
proxy before the origin does."""

import json
import re
import resource
import selectors
import socket
import sys
import time
from pathlib import Path

from .export import terms_of
from .mirror import Grandstand
from .processes import check, free_port, say, start, stop, wait_for
from .starts import Figure
from .web import LIST, get

CLIENTS = 1000
# What the origin takes for an answer: long enough for a thousand requests to arrive meanwhile.
DELAY = 2.0
COLD = f"{LIST}?page=2"
# Terms of these kinds are looked at when the listings do not tell which of them they are in.
KINDS = ["cities", "states", "sports"]


def pages_of_shared_names(port):
    """Pages of all terms that share their name with another: what listings alone cannot tell apart."""
    pages = 0
    for kind in KINDS:
        named = {}
        for name, count in terms_of(port, kind).values():
            named.setdefault(name, []).append(-(-count // 100))
        pages += sum(sum(each) for each in named.values() if len(each) > 1)
    return pages


def refresh(mirror):
    """Requests of one refresh on top of one that has just been."""
    counts = []
    for _ in range(2):
        before = mirror.asked().get("refresh", 0)
        mirror.refresh()
        wait_for("a refresh", 30, lambda: mirror.asked().get("refresh", 0) > before)
        seen, deadline = -1, time.monotonic() + 60
        while seen != (seen := mirror.asked().get("refresh", 0)):
            check(time.monotonic() < deadline, "a refresh does not end")
            time.sleep(0.5)
        counts.append(seen - before)
    return counts[-1]


def at_once(port, target, clients):
    """Sends the same request on many open connections and waits for every answer: how many began with 200. All have
    asked before anyone is answered."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536) if most > 0 else 65536, most))
    request = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
    waiting, good, deadline = selectors.DefaultSelector(), 0, time.monotonic() + 60
    sockets = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(clients)]
    for each in sockets:
        each.sendall(request)
        waiting.register(each, selectors.EVENT_READ)
    check(not waiting.select(0), f"an answer came before all {clients} clients had asked")
    while waiting.get_map() and time.monotonic() < deadline:
        for key, _ in waiting.select(1):
            good += key.fileobj.recv(65536).startswith(b"HTTP/1.1 200 ")
            waiting.unregister(key.fileobj)
    for each in sockets:
        each.close()
    return good


def first_mirror(site, first):
    """Figures of the first mirror, by what was asked for."""
    listings = site.listings
    # Two looks at each page, taxonomies, the detail of each listing.
    allowed, shared = 2 * -(-listings // 100) + 8 + listings, pages_of_shared_names(site.mirror.port)
    title = f"requests for the first mirror, {listings:,} listings ({allowed:,} are allowed, and the pages of ambiguous"
    title += f" terms: {shared:,} if all terms that share a name are ambiguous); by purpose: "
    title += ", ".join(f"{purpose} {count:,}" for purpose, count in first.items() if count)
    return Figure(title, [sum(first.values())], "", allowed + shared)


def cold_key(bench, site):
    """Requests that reach the origin when many clients want the same page at once, which takes its time."""
    directory = site.directory / "slow"
    directory.mkdir()
    log, port = directory / "targets", free_port()
    script = Path(__file__).with_name("slow_proxy.py")
    command = [sys.executable, script, port, site.origin_port, DELAY, log]
    proxy = start(command, bench.load_core, directory / "proxy.log")
    wait_for("the slow proxy", 30, log.exists)
    shield = Grandstand(
        bench.options.grandstand, bench.server_core, site.directory / "shield", port, "mirror.enabled=false",
        f"limits.connections_per_client={2 * CLIENTS}",
    )
    shield.start()
    wait_for("the shield", 60, lambda: get(shield.port, LIST)[0] == 200)
    began = time.monotonic()
    good = at_once(shield.port, COLD, CLIENTS)
    took = time.monotonic() - began
    check(good == CLIENTS, f"{good} of {CLIENTS} clients were answered")
    check(took >= DELAY, f"the cold key was answered after {took:.1f} s: it was not cold")
    stop(shield.child)
    stop(proxy)
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    count = sum(re.search(r"[?&]page=2(&|$)", target) is not None for target in asked)
    title = f"requests for one cold key, {CLIENTS:,} clients at once, an origin that takes {DELAY:g} s"
    return Figure(title, [count], "", 1)


def run(bench, site, first):
    """Figures; `first`: what the first mirror of the site had taken when it was covered, by purpose."""
    title = "requests for a refresh that finds nothing new"
    figures = [first_mirror(site, first), Figure(title, [refresh(site.mirror)], "", 5), cold_key(bench, site)]
    for figure in figures:
        say(figure.text())
    return figures
