"""Hot objects over HTTP/2 with prior knowledge, HTTPS with both, and handshakes: beside nginx and H2O."""

from .hot import BROWSER
from .load import h2load, handshakes
from .peers import start_h2o, start_nginx
from .processes import check, cpu_seconds, free_port, say, stop, wait_for
from .row import NOISE, OLD, OURS, Row
from .web import LIST, decoded, get, raw_answer, settled

# Requests under way at once on a connection of HTTP/2.
STREAMS = 10
# How curl speaks what is measured: scheme, version of the answer, options. The certificate is of our own making.
SPOKEN = {
    "h2c": ("http", "2", "--http2-prior-knowledge"),
    "https1": ("https", "1.1", "-k", "--http1.1"),
    "https2": ("https", "2", "-k", "--http2"),
    "handshake": ("https", "1.1", "-k", "--http1.1"),
}
# How far from H2O a detail and a list page may be.
H2O_GOALS = {"h2c": ({"H2O": 3.0}, {"H2O": 2.05}), "https2": ({"H2O": 2.2}, {"H2O": 1.3})}


class LoadedRow(Row):
    """`way`: which port, and how it is spoken to. `conditional`: each server is asked with its own tag."""

    def __init__(self, title, target, coding, way, goals, conditional=False):
        super().__init__(title, goals)
        self.target, self.way, self.conditional, self.tags = target, way, conditional, {}
        self.headers = {"Accept-Encoding": coding} if coding else {}

    def prepare(self, servers, core):
        """Asserts that all answer alike as they are asked here, notes the size of the bodies, which is the same over
        every protocol, and warms up."""
        said = {}
        for name, (ports, _, plain_port) in servers.items():
            said[name] = decoded(self.port(ports), self.target, self.headers, *SPOKEN[self.way])
            check(said[name] == said[OURS], f"{self.title}: the body of {name} differs")
            tag = get(plain_port, self.target, self.headers)[1]["ETag"]
            self.tags[name] = {"If-None-Match": tag} if self.conditional else {}
            asked = self.headers | self.tags[name]
            self.bodies[name] = len(raw_answer(plain_port, self.target, asked)[1])
            self.load(name, ports, core, 1)

    def port(self, ports):
        return ports[self.way != "h2c"]

    def measure(self, name, ports, child, core, seconds):
        before = cpu_seconds(child)
        result = self.load(name, ports, core, seconds)
        return self.note(name, cpu_seconds(child) - before, result)

    def load(self, name, ports, core, seconds):
        port = self.port(ports)
        if self.way == "handshake":
            result = handshakes(core, port, self.target, seconds)
        else:
            scheme, http1 = ("http" if self.way == "h2c" else "https"), self.way == "https1"
            streams = 1 if http1 else STREAMS
            url = f"{scheme}://127.0.0.1:{port}{self.target}"
            expected = "3xx" if self.conditional else "2xx"
            result = h2load(core, url, seconds, self.headers | self.tags[name], streams, http1, expected)
            mean, size = result["bytes"] / result["requests"], self.bodies[name]
            # Bodies of answers that were not complete at the end.
            check(abs(mean - size) < 0.03 * size + 8, f"{self.title}, {name}: bodies of {mean} bytes, not {size}")
        return result


def rows_of(detail, with_tls):
    rows = []
    ways = [("h2c", f"HTTP/2 in cleartext, {STREAMS} streams")]
    ways += [("https1", "HTTPS, HTTP/1.1"), ("https2", f"HTTPS, HTTP/2, {STREAMS} streams")] if with_tls else []
    for way, title in ways:
        of_detail, of_list = H2O_GOALS.get(way, ({}, {}))
        rows += [
            LoadedRow(f"{title}: detail, identity", detail, None, way, {"nginx": 1.0, **of_detail}),
            LoadedRow(f"{title}: list page of 50, identity", LIST, None, way, {"nginx": 1.1, **of_list}),
            LoadedRow(f"{title}: list page of 50, `Accept-Encoding: {BROWSER}`", LIST, BROWSER, way, {"nginx": 0.95}),
            LoadedRow(f"{title}: list page, 304", LIST, None, way, {"nginx": 0.95}, True),
        ]
    if with_tls:
        rows.append(
            LoadedRow("HTTPS, a new connection with a full handshake for each request", detail, None, "handshake", {})
        )
    return rows


def run(bench, site):
    """The rows, measured; `site`: an origin and a mirror of it that is covered, with `tls_port` if it speaks TLS."""
    ours = site.mirror
    list_headers, detail_headers = get(ours.port, LIST)[1], get(ours.port, site.detail)[1]
    h2c, https = free_port(), free_port()
    cert, key = site.certificate
    listen = [f"listen 127.0.0.1:{h2c} http2", f"listen 127.0.0.1:{https} ssl http2"]
    listen += [
        f"ssl_certificate {cert}",
        f"ssl_certificate_key {key}",
        "ssl_protocols TLSv1.3",
        "ssl_session_cache off",
    ]
    where = bench.directory / "tls-nginx"
    port, nginx = start_nginx(bench.server_core, where, site.origin_port, list_headers, detail_headers, listen)
    wait_for("nginx", 30, lambda: get(port, LIST)[0] == 200)
    h2o_https = free_port()
    h2o_port, h2o = start_h2o(
        bench.server_core, bench.directory / "tls-h2o", ours.port, [LIST, site.detail], (h2o_https, cert, key)
    )
    wait_for("H2O", 30, lambda: get(h2o_port, LIST)[0] == 200)
    if not ours.tls_port:
        bench.unmeasured.append("HTTPS: this binary refuses `tls.*`")
    rows = rows_of(site.detail, bool(ours.tls_port))
    mirrors = {OURS: ours} | ({OLD: site.old} if site.old else {})
    servers = {name: ((each.port, each.tls_port), each.child, each.port) for name, each in mirrors.items()}
    servers |= {"nginx": ((h2c, https), nginx, port), "H2O": ((h2o_port, h2o_https), h2o, h2o_port)}
    for mirror in mirrors.values():
        settled(mirror.port, LIST, {"Accept-Encoding": BROWSER})
    for row in rows:
        row.goals |= {OLD: NOISE} if site.old else {}
        row.prepare(servers, bench.load_core)
    for number in range(bench.options.rounds):
        for row in rows:
            # In turns, because who comes first finds the machine otherwise.
            for name, (ports, child, _) in list(servers.items())[:: -1 if number % 2 else 1]:
                row.measure(name, ports, child, bench.load_core, bench.options.seconds)
            say(f"round {number + 1}, {row.title}: " + ", ".join(f"{n} {v[-1]:.2f} us" for n, v in row.micros.items()))
    stop(nginx)
    stop(h2o)
    return rows
