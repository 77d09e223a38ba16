"""Hot objects over HTTP/1.1, cleartext: grandstand, nginx, Varnish, H2O, bare pingora, and the floor in C."""

from .load import wrk
from .peers import build_bare, start_bare, start_h2o, start_nginx, start_raw, start_varnish
from .processes import check, cpu_seconds, say, stop, wait_for
from .row import NOISE, OLD, OURS, Row
from .web import LIST, decoded, get, raw_answer, settled

BROWSER = "gzip, deflate, br, zstd"
BARE, FLOOR = "bare pingora", "loop in C"


class HotRow(Row):
    def __init__(self, title, target, coding, conditional, goals):
        super().__init__(title, {BARE: 1.15, **goals})
        self.target, self.coding, self.conditional = target, coding, conditional
        self.expected = "304" if conditional else "200"
        self.headers, self.sizes = {}, {}

    def asked(self, port):
        """What is sent to a server: the condition names the tag that it gives out itself."""
        headers = {"Accept-Encoding": self.coding} if self.coding else {}
        if self.conditional:
            headers["If-None-Match"] = get(port, self.target, headers)[1]["ETag"]
        return headers

    def prepare(self, ports):
        """Asserts that all answer alike, and notes how large each answer is."""
        headers = {"Accept-Encoding": self.coding} if self.coding else {}
        # The floor has one answer, here the 304.
        alike = {name: port for name, port in ports.items() if not (self.conditional and name == FLOOR)}
        bodies = {name: decoded(port, self.target, headers) for name, port in alike.items()}
        for name, body in bodies.items():
            check(body == bodies[OURS], f"{self.title}: the body of {name} differs")
        for name, port in ports.items():
            self.headers[name] = self.asked(port)
            for _ in range(3):
                get(port, self.target, self.headers[name])
            head, body = raw_answer(port, self.target, self.headers[name])
            self.sizes[name], self.bodies[name] = len(head) + len(body), len(body)
        for name in (BARE, FLOOR):
            near = name not in ports or abs(self.sizes[name] - self.sizes[OURS]) <= 8
            check(near, f"{self.title}: {name} answers {self.sizes.get(name)} bytes, grandstand {self.sizes[OURS]}")

    def measure(self, name, port, child, core, seconds):
        before = cpu_seconds(child)
        result = wrk(core, port, self.target, seconds, self.headers[name])
        used = cpu_seconds(child) - before
        where = f"{self.title}, {name}"
        check(result["refused"] == 0 and result["broken"] == 0, f"{where}: {result}")
        # Requests in flight at the end, and heads in which numbers change their length.
        mean, size = result["bytes"] / result["requests"], self.sizes[name]
        check(abs(mean - size) < 0.02 * size + 8, f"{where}: answers of {mean} bytes, not {size}")
        return self.note(name, used, result)

    def verify(self, name, port, core):
        seen = wrk(core, port, self.target, 1, self.headers[name], "count.lua")
        check(set(seen) == {self.expected}, f"{self.title}, {name}: answered {seen}, expected only {self.expected}")


def rows_of(detail):
    gzip = {"nginx": 0.95}
    return [
        HotRow("detail, identity", detail, None, False, {"nginx": 1.0, "Varnish": 0.6, "H2O": 1.5}),
        HotRow("list page of 50, identity", LIST, None, False, {"nginx": 1.1, "H2O": 1.35}),
        HotRow(f"list page of 50, `Accept-Encoding: {BROWSER}`", LIST, BROWSER, False, gzip),
        HotRow("list page of 50, `Accept-Encoding: gzip`", LIST, "gzip", False, gzip),
        HotRow("list page, 304", LIST, None, True, {"nginx": 0.95}),
    ]


def run(bench, site):
    """The rows, measured; `site`: an origin and a mirror of it that is covered."""
    ours = site.mirror
    list_headers, detail_headers = get(ours.port, LIST)[1], get(ours.port, site.detail)[1]
    rows = rows_of(site.detail)
    where = bench.directory / "hot"
    where.mkdir()
    nginx = start_nginx(bench.server_core, where / "nginx", site.origin_port, list_headers, detail_headers)
    # It keeps what it gets as gzip and unpacks it for whoever asks for identity - for each request. For those rows a
    # second one that stores both variants, as the others do.
    gzip_varnish = start_varnish(bench.server_core, where / "varnish", site.origin_port)
    plain_varnish = start_varnish(bench.server_core, where / "varnish-plain", site.origin_port, "http_gzip_support=off")
    h2o = start_h2o(bench.server_core, where / "h2o", ours.port, [LIST, site.detail])
    started = [nginx, gzip_varnish, plain_varnish, h2o]
    for port, _ in started:
        wait_for("the peers", 30, lambda port=port: get(port, LIST)[0] == 200)
    # Before anything settles: after minutes a page names another instant, and is coded anew.
    binary = None if BARE in bench.options.skip else bench.options.bare_pingora or build_bare()
    for mirror in filter(None, (ours, site.old)):
        for row in rows:
            settled(mirror.port, row.target, row.asked(mirror.port))
    bare = None
    if binary:
        requests = [(row.target, row.asked(ours.port)) for row in rows]
        bare = start_bare(binary, bench.server_core, where / "bare", ours.port, requests)
        started.append(bare)
        wait_for("bare pingora", 30, lambda: get(bare[0], LIST)[0] == 200)
    else:
        bench.notes.append("bare pingora is left out: not wanted, or it could not be built.")

    servers = {}
    for number, row in enumerate(rows):
        headers = row.asked(ours.port)
        floor = start_raw(bench.server_core, where, number, ours.port, row.target, headers)
        started.append(floor)
        wait_for("the floor", 10, lambda port=floor[0]: get(port, LIST)[0] in (200, 304))
        varnish = gzip_varnish if row.coding else plain_varnish
        servers[row] = {OURS: (ours.port, ours.child)}
        if site.old:
            servers[row][OLD] = (site.old.port, site.old.child)
            row.goals[OLD] = NOISE
        servers[row] |= {"nginx": nginx, "Varnish": varnish, "H2O": h2o}
        servers[row] |= {BARE: bare} if bare else {}
        servers[row][FLOOR] = floor
        row.prepare({name: port for name, (port, _) in servers[row].items()})
        for name, (port, _) in servers[row].items():
            wrk(bench.load_core, port, row.target, 1, row.headers[name])
    for number in range(bench.options.rounds):
        for row in rows:
            # In turns, because who comes first finds the machine otherwise.
            for name, (port, child) in list(servers[row].items())[:: -1 if number % 2 else 1]:
                row.measure(name, port, child, bench.load_core, bench.options.seconds)
            say(f"round {number + 1}, {row.title}: " + ", ".join(f"{n} {v[-1]:.2f} us" for n, v in row.micros.items()))
    for row in rows:
        for name, (port, _) in servers[row].items():
            row.verify(name, port, bench.load_core)
    for _, child in started:
        stop(child)
    return rows
