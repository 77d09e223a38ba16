#!/usr/bin/env python3
"""Runs the public HTTP cache test suite against grandstand, used as a shield, and holds the score to a floor.

    cargo build --locked
    tests/cache_suite/run.py                          # the npm release, installed below target/cache-suite
    tests/cache_suite/run.py --suite CHECKOUT         # a checkout of github.com/http-tests/cache-tests
    tests/cache_suite/run.py --id freshness-max-age   # one case, with everything that was sent
    tests/cache_suite/run.py --proxy http://127.0.0.1:8002 --origin-port 8000    # another cache, already running

Two scores, each with its floor in floor.json. "Shown" is what the suite's site (cache-tests.fyi) shows as passed: a
case whose dependencies failed is failed. "Alone" counts each case by its own result, whatever became of its dependencies;
never less. In both, a case whose setup failed or that did not end is failed, and those for browsers only are left out.

Exit codes: 0 at or above the floors, 1 below one (or an error), 64 wrong usage, 69 the suite cannot be installed. Needs
node and npm; everything runs on 127.0.0.1, in a temporary directory, and is stopped at the end.
"""

import argparse
import atexit
import base64
import collections
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RELEASE = "http-cache-tests@0.4.5"
# Of the tarball, as the registry has it.
INTEGRITY = "DjuwN9nUZXLTW+wav1LRESCZNVxl8SshwOy4z1pxuWbWt5/ay6sM9QQ1lebBaDO6P1IMBoK6mdf+PuVP/QNL8A=="
# What the suite sends through the proxy: PUT sets each case up, the others are what the cases are about.
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "M-SEARCH", "OPTIONS", "PATCH"]
PASSED = {"pass", "yes"}
KINDS = ("required", "optimal", "check")
WHY = {
    "untested": "did not end in time",
    "setup_fail": "setup failed",
    "harness_fail": "the harness failed",
    "retry": "the proxy sent a request twice",
    "dependency_fail": "a case that it depends on failed",
}

children = []


def fail(message, code=1):
    print(f"cache suite: {message}", file=sys.stderr)
    sys.exit(code)


# --- processes -------------------------------------------------------------------------------------------------------


def start(command, log, **options):
    """Starts a child in a process group of its own; `log` is a file for what it says, or None for our own output."""
    output = open(log, "ab") if log else None
    child = subprocess.Popen(
        [str(part) for part in command], stdout=output, stderr=output, stdin=subprocess.DEVNULL,
        start_new_session=True, **options,
    )
    child.log = log
    children.append(child)
    return child


def stop(child):
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, how)
        except ProcessLookupError:
            pass
        try:
            child.wait(10)
            break
        except subprocess.TimeoutExpired:
            continue
    if child in children:
        children.remove(child)


def stop_all():
    for child in reversed(list(children)):
        stop(child)


def said(child):
    return Path(child.log).read_text(errors="replace")[-3000:] if child.log else ""


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def status_of(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def wait_for(what, child, seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition():
        if child.poll() is not None:
            fail(f"{what} ended with code {child.returncode}:\n{said(child)}")
        if time.monotonic() > deadline:
            fail(f"{what} was not ready within {seconds} s:\n{said(child)}")
        time.sleep(0.1)


# --- the suite -------------------------------------------------------------------------------------------------------


def npm(directory, *arguments):
    command = ["npm", *arguments, "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        subprocess.run(
            command, cwd=directory, timeout=300, check=True, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
    except subprocess.SubprocessError as error:
        fail(f"{error}\n{error.stdout or ''}", 69)


def install_dependencies(home):
    """What either version imports: `home/node_modules`, where node finds it from any directory below."""
    home.mkdir(parents=True, exist_ok=True)
    lock = (HERE / "package-lock.json").read_bytes()
    installed = home / "package-lock.json"
    if (home / "node_modules" / "undici").is_dir() and installed.exists() and installed.read_bytes() == lock:
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, home / name)
    npm(home, "ci", "--omit=dev")


def install_release(home):
    """The npm release, without its dependencies: they include all of npm, which nothing needs."""
    suite = home / RELEASE
    if suite.is_dir():
        return suite
    with tempfile.TemporaryDirectory(dir=home) as scratch:
        npm(scratch, "pack", RELEASE)
        (tarball,) = Path(scratch).glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
        if digest != INTEGRITY:
            fail(f"{RELEASE} is not what it was: sha512-{digest}")
        with tarfile.open(tarball) as archive:
            archive.extractall(scratch, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        (Path(scratch) / "package").rename(suite)
    return suite


def copy_checkout(home, checkout):
    """The parts of a checkout that run, below our dependencies; the checkout stays as it is."""
    if not (checkout / "test-engine").is_dir() or not (checkout / "tests").is_dir():
        fail(f"{checkout} is not a checkout of http-tests/cache-tests", 64)
    suite = home / "checkout"
    shutil.rmtree(suite, ignore_errors=True)
    suite.mkdir()
    for part in ("test-engine", "tests", "asset"):
        shutil.copytree(checkout / part, suite / part)
    shutil.copy(checkout / "package.json", suite)
    return suite


def start_server(suite, scratch, port, log):
    """The suite's origin. The sources name its settings as npm does."""
    script = next(path for path in ("test-engine/server/server.mjs", "server/server.mjs") if (suite / path).exists())
    environment = dict(
        os.environ, npm_config_protocol="http", npm_config_port=str(port), npm_config_pidfile=str(scratch / "pid"),
    )
    command = ["node", "--no-warnings", "--require", HERE / "loopback.cjs", script]
    server = start(command, log, cwd=suite, env=environment)
    wait_for("the suite's server", server, 20, lambda: status_of(port, "/state/none") == 404)
    return server


def start_grandstand(binary, scratch, origin_port, log, more):
    port, admin = free_port(), free_port()
    sets = [
        f'origin.url="http://127.0.0.1:{origin_port}"',
        "mirror.enabled=false",
        'passthrough.paths=["/"]',
        f"passthrough.methods={json.dumps(METHODS)}",
        # Fields of a client that reach the origin: the suite is about caches that send all of them.
        'passthrough.request_headers=["*"]',
        "rate_limit.requests_per_minute=0",
        "origin.requests_per_minute=0",
        f'listen=["127.0.0.1:{port}"]',
        f'public_url="http://127.0.0.1:{port}"',
        f'admin.listen="127.0.0.1:{admin}"',
        f'data_dir="{scratch / "data"}"',
        *more,
    ]
    child = start([binary, "serve", *(part for item in sets for part in ("--set", item))], log, cwd=scratch)
    wait_for("grandstand", child, 30, lambda: status_of(admin, "/readyz") == 200)
    return child, f"http://127.0.0.1:{port}"


def run_client(suite, base, scratch, seconds, only, log):
    file = scratch / "results.json"
    command = ["node", "--no-warnings", HERE / "client.mjs", suite, base, file, str(seconds)]
    client = start([*command, only] if only else command, log)
    try:
        client.wait(seconds + 30)
    except subprocess.TimeoutExpired:
        fail(f"the suite's client did not end:\n{said(client)}")
    finally:
        stop(client)
    if client.returncode != 0 or not file.exists():
        fail(f"the suite's client ended with code {client.returncode}:\n{said(client)}")
    return json.loads(file.read_text())


# --- the score -------------------------------------------------------------------------------------------------------


def count(cases):
    """By kind: how many there are, are shown as passed, and passed alone."""
    score = {kind: collections.Counter() for kind in KINDS}
    for case in cases:
        score[case["kind"]].update(of=1, shown=case["outcome"] in PASSED, alone=case["alone"])
    return score


def explain(case):
    why = WHY.get(case["outcome"], "")
    if case["outcome"] == "dependency_fail":
        why += f" ({', '.join(case['failed_dependencies'])})" + (", passed alone" if case["alone"] else "")
    # Each answer has another random name in it.
    reason = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", case["reason"])
    return "; ".join(part for part in (why, reason) if part) or case["outcome"]


def print_failures(cases):
    for kind in KINDS[:2]:
        failed = [case for case in cases if case["kind"] == kind and case["outcome"] not in PASSED]
        if failed:
            print(f"\n{kind}, failed: {len(failed)}")
        for case in failed:
            print(f"  {case['id']} ({case['group']}): {explain(case)}")


def print_score(score):
    for which in ("shown", "alone"):
        print(f"{which}: " + ", ".join(f"{kind} {score[kind][which]} of {score[kind]['of']}" for kind in KINDS))


def hold_to_floor(layout, score):
    """True where nothing is below its floor. Says by how much a floor may rise."""
    floors = json.loads((HERE / "floor.json").read_text())[layout]
    good = True
    for kind, floor in floors.items():
        if score[kind]["of"] != floor["of"]:
            print(f"note: the floor is for {floor['of']} {kind} cases, this version has {score[kind]['of']}")
        for which in ("shown", "alone"):
            more = score[kind][which] - floor[which]
            if more < 0:
                print(f"BELOW THE FLOOR by {-more}: {kind}, {which}: {score[kind][which]}, floor {floor[which]}")
                good = False
            elif more > 0:
                print(f"above the floor: {kind}, {which}: floor.json may be raised by {more} to {score[kind][which]}")
    return good


# --- the run ---------------------------------------------------------------------------------------------------------


def default_binary():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [path for path in (target / "debug/grandstand", target / "release/grandstand") if path.exists()]
    return max(built, key=lambda path: path.stat().st_mtime, default=target / "debug/grandstand")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: fail(message, 64)
    parser.add_argument("--suite", type=Path, metavar="DIR", help="a checkout; default: the npm release")
    parser.add_argument("--grandstand", type=Path, metavar="PATH", help="default: the newer build in target/")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="more settings for it")
    parser.add_argument("--proxy", metavar="URL", help="measure this cache instead of starting grandstand")
    parser.add_argument("--origin-port", type=int, metavar="PORT", help="for the suite's server; default: a free one")
    parser.add_argument("--id", metavar="TEST_ID", help="one case, verbosely; no floor")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where all results go")
    parser.add_argument("--seconds", type=int, default=300, help="for the whole suite (%(default)s)")
    parser.add_argument("--home", type=Path, default=ROOT / "target" / "cache-suite", help="where it is installed")
    return parser.parse_args()


def main():
    options = arguments()
    if options.proxy and not options.origin_port:
        fail("--proxy needs --origin-port: the port that the other cache has as its origin", 64)
    missing = [tool for tool in ("node", "npm") if not shutil.which(tool)]
    if missing:
        fail(f"{' and '.join(missing)} missing: apt-get install nodejs npm", 69)
    binary = (options.grandstand or default_binary()).resolve()
    if not options.proxy and not binary.exists():
        fail(f"{binary} does not exist: cargo build --locked")

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    holder = tempfile.TemporaryDirectory(prefix="cache-suite-")
    atexit.register(holder.cleanup)
    atexit.register(stop_all)
    scratch, home = Path(holder.name), options.home.resolve()

    install_dependencies(home)
    suite = copy_checkout(home, options.suite.resolve()) if options.suite else install_release(home)
    log = lambda name: None if options.id else scratch / name
    port = options.origin_port or free_port()
    start_server(suite, scratch, port, log("server.log"))
    if options.proxy:
        base, proxy = options.proxy.rstrip("/"), None
    else:
        proxy, base = start_grandstand(binary, scratch, port, scratch / "grandstand.log", options.set)

    began = time.monotonic()
    found = run_client(suite, base, scratch, options.seconds, options.id, log("client.log"))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    if proxy and proxy.poll() is not None:
        fail(f"grandstand ended with code {proxy.returncode}:\n{said(proxy)}")

    cases = found["cases"]
    if options.id:
        print(f"{cases[0]['kind']}: {explain(cases[0])}")
        sys.exit(0 if cases[0]["outcome"] in PASSED else 1)
    print_failures(cases)
    score = count(cases)
    what = "the repository's version" if found["layout"] == "repository" else RELEASE
    print(f"\n{what} against {options.proxy or 'grandstand'}, {time.monotonic() - began:.0f} s")
    if not found["complete"]:
        print(f"NOT COMPLETE: stopped after {options.seconds} s; cases that did not end count as failed")
    print_score(score)
    if not options.proxy and not hold_to_floor(found["layout"], score):
        sys.exit(1)


if __name__ == "__main__":
    main()
