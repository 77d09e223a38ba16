#!/usr/bin/env python3
"""Measures grandstand, nginx and Varnish side by side: server CPU per request, the three taken in turns.

    cargo build --release --locked
    python3 benches/side_by_side.py                      # five rounds of three seconds per cell
    python3 benches/side_by_side.py --rounds 2 --seconds 1

Needs two cores and the Debian packages nginx-light, varnish, wrk, curl and util-linux. Everything runs on loopback, on
free ports, in a temporary directory; all that was started is stopped at the end. Servers run on the first core with
one worker each, wrk and the origin on the second. Prints a report in Markdown.
"""

import argparse
import atexit
import gzip
import http.client
import json
import os
import platform
import random
import re
import shutil
import signal
import socket
import statistics
import string
import subprocess
import sys
import tempfile
import time
import urllib.parse
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = HERE / "side_by_side"
TICKS = os.sysconf("SC_CLK_TCK")
PACKAGES = {"nginx": "nginx-light", "varnishd": "varnish", "wrk": "wrk", "taskset": "util-linux", "curl": "curl"}
BROWSER = "gzip, deflate, br, zstd"
LIST = "/api/listings.json"
CONNECTIONS = 32

# Everything that runs, to be stopped at the end.
children = []


def fail(message):
    sys.exit(f"side_by_side: {message}")


def check(condition, message):
    if not condition:
        fail(message)


# --- processes -------------------------------------------------------------------------------------------------------


def start(command, core, log, **options):
    """Starts a server on one core, in a process group of its own."""
    with open(log, "ab") as out:
        child = subprocess.Popen(
            ["taskset", "-c", str(core), *map(str, command)], stdout=out, stderr=out, start_new_session=True, **options
        )
    child.log = log
    children.append(child)
    return child


def stop(child, how=signal.SIGTERM):
    """Stops a server with all its processes and waits for it."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, how)
        except ProcessLookupError:
            pass
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if child in children:
        children.remove(child)


def stop_all():
    for child in reversed(list(children)):
        stop(child)


def tree(root):
    """The process ids of a process and all its descendants."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            parents[int(entry)] = int(text.rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def cpu_seconds(child):
    """User and system time of all processes of a server, with what its ended children used."""
    ticks = 0
    for pid in tree(child.pid):
        fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
        if pid == child.pid:
            ticks += int(fields[13]) + int(fields[14])
    return ticks / TICKS


def resident(child):
    """Resident memory in MiB, all and without files."""
    text = Path("/proc", str(child.pid), "status").read_text()
    amount = lambda name: int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) / 1024
    return amount("VmRSS"), amount("RssAnon")


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def version(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip().splitlines()[0]


# --- requests --------------------------------------------------------------------------------------------------------


def get(port, target, headers=None, timeout=10):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", target, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def raw_size(port, target, headers):
    """The bytes of one whole answer on a connection that stays open, as wrk sees it."""
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        lines = [f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", *(f"{k}: {v}" for k, v in headers.items())]
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += sock.recv(65536)
        head, _, _ = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        body = int(length[1]) if length and b" 304 " not in head.split(b"\r\n")[0] else 0
        return len(head) + 4 + body, body


def decoded(port, target, headers):
    """A body with its content coding undone, and without the time at which it was made."""
    command = ["curl", "-sS", "--fail", "--compressed", f"http://127.0.0.1:{port}{target}"]
    # curl asks for everything it knows unless told otherwise.
    command += ["-H", f"Accept-Encoding: {headers.get('Accept-Encoding', '')}".rstrip()]
    body = subprocess.run(command, capture_output=True, check=True).stdout
    return re.sub(rb'"generated_at":"[^"]*"', b'"generated_at":""', body)


def wait_for(what, seconds, condition):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for child in children:
            if child.poll() is not None:
                fail(f"a server ended while waiting for {what}:\n{Path(child.log).read_text()[-2000:]}")
        try:
            result = condition()
            if result:
                return result
        except (OSError, http.client.HTTPException, ValueError):
            pass
        time.sleep(0.05)
    fail(f"waited {seconds} s for {what} in vain")


def wrk(core, port, target, seconds, headers=None, script="done.lua", arguments=()):
    command = ["taskset", "-c", str(core), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(PARTS / script)]
    for name, value in (headers or {}).items():
        command += ["-H", f"{name}: {value}"]
    command += [f"http://127.0.0.1:{port}{target}", "--", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30)
    found = re.search(r"^RESULT (.*)$", done.stdout, re.MULTILINE)
    check(found, f"wrk said nothing:\n{done.stdout}{done.stderr}")
    return json.loads(found[1])


# --- the servers -----------------------------------------------------------------------------------------------------


class Grandstand:
    """The mirror, with everything on that is on by default and a limit that is never reached."""

    def __init__(self, binary, core, directory, origin_port, *more):
        self.port, self.admin = free_port(), free_port()
        self.core, self.log = core, directory / "grandstand.log"
        sets = [
            f'listen=["127.0.0.1:{self.port}"]',
            f'public_url="http://127.0.0.1:{self.port}"',
            f'admin.listen="127.0.0.1:{self.admin}"',
            f'data_dir="{directory / "data"}"',
            f'origin.url="http://127.0.0.1:{origin_port}"',
            "origin.requests_per_minute=0",
            'origin.cache_ttl="1s"',
            "rate_limit.requests_per_minute=100000000",
            *more,
        ]
        self.command = [binary, "serve", *(part for item in sets for part in ("--set", item))]
        self.child = None

    def start(self):
        self.child = start(self.command, self.core, self.log)

    def status(self):
        return json.loads(get(self.admin, "/status")[2])

    def wait(self):
        """Until every listing and every detail is there and no term is in doubt."""

        def covered():
            status = self.status()
            details, terms = status["details"], status["terms"]
            if details is None or terms is None:
                return None
            whole = details["mirrored"] == details["of"] and status["snapshot"]["certificate"] != "provisional"
            return status if whole and not any(term["doubtful"] for term in terms.values()) else None

        return wait_for("full coverage", 120, covered)


def header_lines(ours, leave):
    """Our response headers as nginx directives: the same bytes for it to send."""
    lines = []
    for name, value in ours.items():
        if name.lower() in leave:
            continue
        value = value.replace("\\", "\\\\").replace('"', '\\"')
        lines += [f"            proxy_hide_header {name};", f'            add_header {name} "{value}";']
    return "\n".join(lines)


def start_nginx(core, directory, origin_port, list_headers, other_headers):
    directory.mkdir()
    port = free_port()
    # Of the same resource, or made by nginx itself.
    leave = {"date", "etag", "content-type", "content-length", "content-encoding", "connection", "server"}
    text = string.Template((PARTS / "nginx.conf").read_text()).safe_substitute(
        DIR=directory,
        USER="user root;" if os.geteuid() == 0 else "",
        ORIGIN=f"127.0.0.1:{origin_port}",
        LISTEN=f"127.0.0.1:{port}",
        LIST_HEADERS=header_lines(list_headers, leave),
        OTHER_HEADERS=header_lines(other_headers, leave),
    )
    config = directory / "nginx.conf"
    config.write_text(text)
    return port, start(["nginx", "-p", directory, "-c", config], core, directory / "out.log")


def start_varnish(core, directory, origin_port, *parameters):
    directory.mkdir()
    port = free_port()
    command = ["varnishd", "-F", "-j", "none", "-n", directory, "-a", f"127.0.0.1:{port}", "-T", "none"]
    command += ["-b", f"127.0.0.1:{origin_port}", "-s", "malloc,256m", "-p", "thread_pools=1"]
    # A thread per connection that is in use: enough of them from the start.
    command += ["-p", "thread_pool_min=100"]
    for parameter in parameters:
        command += ["-p", parameter]
    return port, start(command, core, directory / "out.log")


# --- what is measured ------------------------------------------------------------------------------------------------


class Row:
    def __init__(self, title, target, coding, conditional, goal, varnish_goal=None):
        self.title, self.target, self.coding, self.conditional = title, target, coding, conditional
        self.goal, self.varnish_goal = goal, varnish_goal
        self.expected = "304" if conditional else "200"
        self.headers, self.sizes, self.bodies = {}, {}, {}
        self.micros, self.rates = {}, {}

    def prepare(self, ports):
        """Asserts that all answer alike, and notes how large each answer is."""
        headers = {"Accept-Encoding": self.coding} if self.coding else {}
        bodies = {name: decoded(port, self.target, headers) for name, port in ports.items()}
        first = next(iter(bodies.values()))
        for name, body in bodies.items():
            check(body == first, f"{self.title}: the body of {name} differs")
        for name, port in ports.items():
            self.headers[name] = dict(headers)
            if self.conditional:
                self.headers[name]["If-None-Match"] = get(port, self.target, headers)[1]["ETag"]
            for _ in range(3):
                get(port, self.target, self.headers[name])
            self.sizes[name], self.bodies[name] = raw_size(port, self.target, self.headers[name])
            self.micros[name], self.rates[name] = [], []

    def measure(self, name, port, child, core, seconds):
        before = cpu_seconds(child)
        result = wrk(core, port, self.target, seconds, self.headers[name])
        used = cpu_seconds(child) - before
        where = f"{self.title}, {name}"
        check(result["refused"] == 0 and result["broken"] == 0, f"{where}: {result}")
        # Requests in flight at the end, and heads in which numbers change their length.
        mean = result["bytes"] / result["requests"]
        size = self.sizes[name]
        check(abs(mean - size) < 0.02 * size + 8, f"{where}: answers of {mean} bytes, not {size}")
        self.micros[name].append(used / result["requests"] * 1e6)
        self.rates[name].append(result["requests"] / result["micros"] * 1e6)

    def verify(self, name, port, core):
        seen = wrk(core, port, self.target, 1, self.headers[name], "count.lua")
        check(set(seen) == {self.expected}, f"{self.title}, {name}: answered {seen}, expected only {self.expected}")


def spread(values, digits=1):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def hot_table(rows):
    lines = [
        "| hot object, keep-alive, 32 connections | grandstand | nginx | Varnish | of nginx | goal | of Varnish "
        "| body bytes | requests/s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        # Of each round by itself: what disturbs a round disturbs all three.
        pairs = lambda name: [a / b for a, b in zip(row.micros["grandstand"], row.micros[name])]
        ratio, other = (statistics.median(pairs(name)) for name in ("nginx", "Varnish"))
        met = ratio <= row.goal and (row.varnish_goal is None or other <= row.varnish_goal)
        ratio = f"{ratio:.2f}" if ratio <= row.goal else f"**{ratio:.2f} lost**"
        mark = "" if row.varnish_goal is None or other <= row.varnish_goal else " **lost**"
        goal = f"{row.goal:.2f}" + (f", {row.varnish_goal:.1f} of Varnish" if row.varnish_goal else "")
        title = row.title if met else f"**{row.title}**"
        cells = [spread(row.micros[name]) for name in ("grandstand", "nginx", "Varnish")]
        sizes = " / ".join(str(row.bodies[name]) for name in row.bodies)
        rates = " / ".join(f"{statistics.median(row.rates[name]):,.0f}" for name in row.rates)
        lines.append(f"| {title} | {' | '.join(cells)} | {ratio} | {goal} | {other:.2f}{mark} | {sizes} | {rates} |")
    return "\n".join(lines)


def mirrored_items(port):
    """All listings with the slugs that find them."""
    first = json.loads(get(port, LIST + "?per_page=100")[2])
    pages = [first] + [
        json.loads(get(port, f"{LIST}?per_page=100&page={page}")[2]) for page in range(2, first["total_pages"] + 1)
    ]
    return [item for page in pages for item in page["items"]]


def terms_of(port, plural):
    """Slug and count of each term, whatever the envelope calls them."""
    found = {}

    def walk(value):
        if isinstance(value, list):
            for inner in value:
                walk(inner)
        elif isinstance(value, dict):
            if "slug" in value and "api_url" in value:
                count = next(inner for inner in value.values() if type(inner) is int)
                name = next(v for k, v in value.items() if type(v) is str and k not in ("slug", "api_url", "@type"))
                found[value["slug"]] = (name, count)
            else:
                for inner in value.values():
                    walk(inner)

    walk(json.loads(get(port, f"/api/{plural}.json")[2]))
    return found


def queries(port, count, unique):
    """The mix: 40 % sport and state, 20 % city, 20 % a page of a state, 10 % sport and since, 10 % any page.

    Values follow the data: of each query, a listing chosen at random decides. `unique`: "#" in a query stands for a
    number of its own; where the mix has no `modified_since`, one from before all data gives it a place.
    """
    dice = random.Random(1)
    items = mirrored_items(port)
    states, cities = terms_of(port, "states"), terms_of(port, "cities")
    slug_of_state = {name: slug for slug, (name, _) in states.items()}
    city_slugs, city_counts = list(cities), [amount for _, amount in cities.values()]
    drawn_cities = iter(dice.choices(city_slugs, city_counts, k=count))
    pages = -(-len(items) // 50)
    since = "&modified_since=1990-01-01T00:00:00.#Z" if unique else ""
    lines = []
    for _ in range(count):
        item, roll = dice.choice(items), dice.random()
        state = slug_of_state[item["state"]]
        if roll < 0.4:
            line = f"sport={item['sport']}&state={state}{since}"
        elif roll < 0.6:
            line = f"city={next(drawn_cities)}{since}"
        elif roll < 0.8:
            page = dice.randint(1, -(-states[state][1] // 50))
            line = f"state={state}&page={page}{since}"
        elif roll < 0.9:
            at = datetime.fromisoformat(item["modified"]).astimezone(timezone.utc)
            fraction = "#" if unique else f"{dice.randrange(10**9):09}"
            line = f"sport={item['sport']}&modified_since={at:%Y-%m-%dT%H:%M:%S}.{fraction}Z"
        else:
            line = f"page={dice.randint(1, pages)}{since}"
        lines.append(line)
    return lines


def check_queries(lines, port, origin_port):
    """Asserts that the mirror answers a sample as the origin does, byte for byte but for the time."""
    number = 0
    for line in random.Random(2).sample(lines, 300):
        number += 1
        target = f"{LIST}?{line.replace('#', f'{number:09}')}"
        ours, theirs = (re.sub(rb'"generated_at":"[^"]*"', b"", get(at, target)[2]) for at in (port, origin_port))
        check(ours == theirs, f"the answer to {target} is not the origin's")


class Mix:
    """Queries that cannot have been cached."""

    def __init__(self, title, server, file):
        self.title, self.server, self.file = title, server, file
        self.micros, self.rates, self.p99, self.sent = [], [], [], 1000

    def measure(self, core, seconds):
        before = cpu_seconds(self.server.child)
        result = wrk(core, self.server.port, LIST, seconds, None, "mix.lua", (self.file, self.sent))
        used = cpu_seconds(self.server.child) - before
        check(result["refused"] == 0 and result["broken"] == 0, f"{self.title}: {result}")
        self.sent += result["requests"] + CONNECTIONS
        self.micros.append(used / result["requests"] * 1e6)
        self.rates.append(result["requests"] / result["micros"] * 1e6)
        self.p99.append(result["p99"])
        self.mean = result["bytes"] / result["requests"]


def starts(server, expected, how, times):
    """Milliseconds from starting the process to the first correct answer, after stopping it in some way."""
    taken = []
    for _ in range(times):
        stop(server.child, how)
        began = time.monotonic()
        server.start()
        while True:
            try:
                status, _, body = get(server.port, LIST)
            except (OSError, http.client.HTTPException):
                check(time.monotonic() - began < 30, "no answer within 30 s of a start")
                time.sleep(0.0005)
                continue
            if status == 200 and re.sub(rb'"generated_at":"[^"]*"', b'"generated_at":""', body) == expected:
                break
            check(time.monotonic() - began < 30, "no correct answer within 30 s of a start")
            time.sleep(0.0005)
        taken.append((time.monotonic() - began) * 1000)
    return taken


# --- the run ---------------------------------------------------------------------------------------------------------


def machine():
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) / 2**20
    virtual = "hypervisor" in Path("/proc/cpuinfo").read_text()
    kind = "virtual machine" if virtual else "machine"
    kernel = ".".join(platform.release().split(".")[:2])
    name = cpu[1] if cpu else platform.machine()
    return f"{kind} with {os.cpu_count()} cores of {name}, {memory:.0f} GiB; Linux {kernel}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of load for each cell of each round")
    parser.add_argument("--listings", type=int, default=10_000)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--grandstand", default=f"{target}/release/grandstand", help="the binary (%(default)s)")
    options = parser.parse_args()

    missing = sorted({package for tool, package in PACKAGES.items() if not shutil.which(tool)})
    check(not missing, f"apt-get install {' '.join(missing)}")
    binary = Path(options.grandstand).resolve()
    check(binary.exists(), f"{options.grandstand} does not exist: cargo build --release --locked")
    cores = sorted(os.sched_getaffinity(0))
    check(len(cores) >= 2, "two cores are needed")
    server_core, load_core = cores[:2]

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    scratch = tempfile.TemporaryDirectory(prefix="side-by-side-")
    directory = Path(scratch.name)
    atexit.register(scratch.cleanup)
    atexit.register(stop_all)
    say = lambda text: print(text, file=sys.stderr, flush=True)

    origin_port = free_port()
    command = [binary, "origin", "--listen", f"127.0.0.1:{origin_port}", "--listings", options.listings]
    command += ["--until-stdin-closes"]
    origin = start(command, load_core, directory / "origin.log", stdin=subprocess.PIPE)
    wait_for("the origin", 60, lambda: get(origin_port, LIST)[0] == 200)
    ours = Grandstand(binary, server_core, directory, origin_port)
    ours.start()
    began = time.monotonic()
    ours.wait()
    say(f"grandstand: full coverage after {time.monotonic() - began:.1f} s")
    memory = {"just mirrored": resident(ours.child)}

    items = json.loads(get(ours.port, LIST)[2])["items"]
    details = [f"/api/listings/{item['id']}.json" for item in items]
    detail = min(details, key=lambda path: abs(len(get(ours.port, path)[2]) - 1024))
    list_headers, detail_headers = get(ours.port, LIST)[1], get(ours.port, detail)[1]
    nginx_port, nginx = start_nginx(server_core, directory / "nginx", origin_port, list_headers, detail_headers)
    # It keeps what it gets as gzip and unpacks it for whoever asks for identity - for each request. For those rows a
    # second one that stores both variants, as the others do.
    gzip_port, gzip_varnish = start_varnish(server_core, directory / "varnish", origin_port)
    plain_port, plain_varnish = start_varnish(
        server_core, directory / "varnish-plain", origin_port, "http_gzip_support=off"
    )
    for port in (nginx_port, gzip_port, plain_port):
        wait_for("the peers", 30, lambda port=port: get(port, LIST)[0] == 200)

    rows = [
        Row("detail, identity", detail, None, False, 1.0, 0.6),
        Row("list page of 50, identity", LIST, None, False, 1.1),
        Row(f"list page of 50, `Accept-Encoding: {BROWSER}`", LIST, BROWSER, False, 0.95),
        Row("list page of 50, `Accept-Encoding: gzip`", LIST, "gzip", False, 0.95),
        Row("list page, 304", LIST, None, True, 1.1),
    ]
    servers = {}
    for row in rows:
        varnish = (gzip_port, gzip_varnish) if row.coding else (plain_port, plain_varnish)
        servers[row] = {"grandstand": (ours.port, ours.child), "nginx": (nginx_port, nginx), "Varnish": varnish}
        row.prepare({name: port for name, (port, _) in servers[row].items()})
        for port, _ in servers[row].values():
            wrk(load_core, port, row.target, 1, row.headers["nginx"] if not row.conditional else None)
    for number in range(options.rounds):
        for row in rows:
            for name, (port, child) in servers[row].items():
                row.measure(name, port, child, load_core, options.seconds)
            say(f"round {number + 1}, {row.title}: " + ", ".join(f"{n} {v[-1]:.2f} us" for n, v in row.micros.items()))
    for row in rows:
        for name, (port, _) in servers[row].items():
            row.verify(name, port, load_core)
    load = os.getloadavg()[0]
    memory["after the hot rows"] = resident(ours.child)
    for child in (nginx, gzip_varnish, plain_varnish):
        stop(child)

    # Start, from the durable snapshot.
    expected = decoded(ours.port, LIST, {})
    clean = starts(ours, expected, signal.SIGTERM, 5)
    killed = starts(ours, expected, signal.SIGKILL, 5)
    say(f"start: clean {spread(clean, 0)} ms, killed {spread(killed, 0)} ms")
    ours.wait()
    time.sleep(1)
    memory["after a start from the durable snapshot"] = resident(ours.child)

    # Queries that nobody asked before.
    second = Grandstand(binary, server_core, directory / "second", origin_port, 'cache.max_bytes="1KiB"')
    (directory / "second").mkdir()
    second.start()
    second.wait()
    mixes = []
    for title, server, unique in [
        ("every query unique, reply cache filling and evicting", ours, True),
        ("the mix as it is, reply cache of 1 KiB", second, False),
    ]:
        file = directory / f"mix-{len(mixes)}"
        lines = queries(server.port, 50_000, unique)
        file.write_text("\n".join(lines) + "\n")
        check_queries(lines, server.port, origin_port)
        mixes.append(Mix(title, server, file))
    for number in range(options.rounds):
        for mix in mixes:
            mix.measure(load_core, options.seconds)
            say(f"round {number + 1}, never seen, {mix.title}: {mix.micros[-1]:.1f} us")
    through = ours.status()["origin"]["requests"]
    memory["after the never-seen queries"] = resident(ours.child)
    cache = ours.status()["cache"]
    check(origin.poll() is None, "the origin ended")

    print(f"* Command: `python3 benches/side_by_side.py --rounds {options.rounds} --seconds {options.seconds}`")
    print(f"* Machine: {machine()}. Load average at the end of the hot rows: {load:.1f}.")
    rust = version("rustc", "-V") if shutil.which("rustc") else "rustc unknown"
    names = [version(str(binary), "--version"), rust, version("nginx", "-v").removeprefix("nginx version: ")]
    names += [re.search(r"varnish-[\d.]+", version("varnishd", "-V"))[0], version("wrk", "-v").split(" Copyright")[0]]
    print(f"* Versions: {'; '.join(names)}.")
    print(f"* Microseconds of CPU per request: median of {options.rounds} rounds (least-most). Ratios: median of the rounds'")
    print("  own ratios. Body bytes and requests per second: grandstand / nginx / Varnish.\n")
    print(hot_table(rows))
    print(f"\n| queries never seen before, {options.listings:,} listings, identity ", end="")
    print("| CPU per request | requests/s | p99 | bytes | goal |")
    print("|---|---:|---:|---:|---:|---:|")
    for mix in mixes:
        median = statistics.median(mix.micros)
        title, mark = (mix.title, "") if median <= 30 else (f"**{mix.title}**", " **lost**")
        rate, p99 = statistics.median(mix.rates), statistics.median(mix.p99) / 1000
        print(f"| {title} | {spread(mix.micros)} us{mark} | {rate:,.0f} | {p99:.1f} ms | {mix.mean:,.0f} | 30 us |")
    print("\n| memory | resident | of it anonymous | goal |\n|---|---:|---:|---:|")
    for when, (all_of_it, anonymous) in memory.items():
        judged = when == "after a start from the durable snapshot"
        mark = " **lost**" if judged and all_of_it > 64 else ""
        print(f"| {when} | {all_of_it:.0f} MiB{mark} | {anonymous:.0f} MiB | {'64 MiB' if judged else ''} |")
    print(f"\nThe reply cache held {cache['bytes'] / 2**20:.0f} MiB in {cache['entries']:,} answers at the end.")
    print("\n| start to the first correct answer | milliseconds | goal |\n|---|---:|---:|")
    for title, taken in (("after SIGTERM", clean), ("after kill -9", killed)):
        mark = "" if statistics.median(taken) <= 150 else " **lost**"
        print(f"| {title}, median of 5 | {spread(taken, 0)}{mark} | 150 |")
    say(f"requests to the origin since the last start: {through}")


if __name__ == "__main__":
    main()
