"""What the origin is asked: for a first mirror, for a refresh that finds nothing new, and for one cold key that a
thousand clients want at once. As grandstand counts it; the tests count at the origin."""

import http.client
import resource
import selectors
import socket
import time

from .mirror import Grandstand
from .processes import check, say, stop, wait_for
from .starts import Figure
from .web import LIST, get

CLIENTS = 1000


def asked(mirror):
    """Requests to the origin by what they were for."""
    return mirror.status()["origin"]["requests"]


def refresh(mirror):
    """Requests of one refresh on top of one that has just been."""
    counts = []
    for _ in range(2):
        before = asked(mirror).get("refresh", 0)
        connection = http.client.HTTPConnection("127.0.0.1", mirror.admin, timeout=10)
        connection.request("POST", "/refresh")
        check(connection.getresponse().status == 202, "a refresh was not accepted")
        wait_for("a refresh", 30, lambda: asked(mirror).get("refresh", 0) > before)
        seen = -1
        while seen != (seen := asked(mirror).get("refresh", 0)):
            time.sleep(0.5)
        counts.append(seen - before)
    return counts[-1]


def at_once(port, target, clients):
    """Sends the same request on many open connections and waits for every answer: how many began with 200."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536) if most > 0 else 65536, most))
    request = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
    waiting, good, deadline = selectors.DefaultSelector(), 0, time.monotonic() + 60
    sockets = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(clients)]
    for each in sockets:
        each.sendall(request)
        waiting.register(each, selectors.EVENT_READ)
    while waiting.get_map() and time.monotonic() < deadline:
        for key, _ in waiting.select(1):
            good += key.fileobj.recv(65536).startswith(b"HTTP/1.1 200 ")
            waiting.unregister(key.fileobj)
    for each in sockets:
        each.close()
    return good


def run(bench, site, first):
    """Figures; `first`: what the first mirror of the site had taken when it was covered."""
    listings = site.listings
    # Two looks at each page, taxonomies, the detail of each listing; beside that what cannot be known here.
    allowed = 2 * -(-listings // 100) + 8 + listings
    title = f"for the first mirror, {listings:,} listings ({allowed:,} and the pages of ambiguous terms are allowed)"
    figures = [Figure(f"requests {title}", [first], "")]
    figures.append(Figure("requests for a refresh that finds nothing new", [refresh(site.mirror)], "", 5))
    shield = Grandstand(
        bench.options.grandstand, bench.server_core, site.directory / "shield", site.origin_port, "mirror.enabled=false"
    )
    shield.start()
    wait_for("the shield", 30, lambda: get(shield.port, LIST)[0] == 200)
    before = sum(asked(shield).values())
    good = at_once(shield.port, f"{LIST}?page=2", CLIENTS)
    check(good == CLIENTS, f"{good} of {CLIENTS} clients were answered")
    title = f"requests for one cold key, {CLIENTS:,} clients at once"
    figures.append(Figure(title, [sum(asked(shield).values()) - before], "", 1))
    stop(shield.child)
    for figure in figures:
        say(figure.text())
    return figures
