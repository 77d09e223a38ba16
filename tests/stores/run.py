#!/usr/bin/env python3
"""Runs a fleet on real object stores: publisher, replicas, and what may happen to objects and to the line.

    tests/stores/run.py                  # Azurite, which is what CI runs
    tests/stores/run.py --all            # all of the stores below
    tests/stores/run.py moto s3rver      # some of them
    tests/stores/run.py azurite -- two_publishers    # only some tests

    azurite   Azure Blob Storage, the emulator of its maker; npm
    s3rver    S3 on files: no conditional writes, no check of secrets, and objects are written in place; npm
    moto      S3 in memory; PyPI; as setup.sh installs it
    garage    S3 on three nodes that keep three copies on disk: no conditional writes; crates.io. The first run builds it,
              which takes a quarter of an hour and a GB of disk

Installs what is missing below target/stores, starts each store on a free port with its data in a temporary directory, makes
a bucket, and runs the tests of `tests/wire/fleet/stores.rs` and `src/fleet/bundle_store/tests/real.rs`. Everything runs on
127.0.0.1 and is stopped at the end.

Exit codes: 0 all well, 1 not, 69 a store cannot be installed (the others were tried). Needs cargo; node and npm for the stores
from npm; python3 for moto; a C compiler and cmake for Garage.
"""

import argparse
import base64
import datetime
import hashlib
import hmac
import http.client
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOME = ROOT / "target" / "stores"
AZURITE = "azurite@3.35.0"
S3RVER = "s3rver@3.7.1"
GARAGE = "garage@2.5.0"
NODES = 3
BUCKET = "fleet"
PATIENCE = 60


class Missing(Exception):
    """A store that cannot be installed."""


def npm(release, program):
    """A program of an npm package, installed where it is not yet."""
    home = HOME / release.split("@")[0]
    path, mark = home / "node_modules" / ".bin" / program, home / "installed"
    if not (path.exists() and mark.exists() and mark.read_text() == release):
        if not shutil.which("npm"):
            raise Missing("npm is missing")
        home.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--prefix", home, "--no-audit", "--no-fund", "--silent", release]
        if subprocess.run(command, check=False).returncode != 0:
            raise Missing(f"{release} cannot be installed")
        mark.write_text(release)
    return path


def crate(release, *options):
    """The program of a crate, built where it is not there yet."""
    name = release.split("@")[0]
    home = HOME / name
    path, mark = home / "bin" / name, home / "installed"
    if not (path.exists() and mark.exists() and mark.read_text() == release):
        home.mkdir(parents=True, exist_ok=True)
        # Half the time to build, and a tenth of the disk: nobody measures it.
        lean = {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_PROFILE_DEV_INCREMENTAL": "false", "CARGO_TARGET_DIR": str(home / "build")}
        command = ["cargo", "install", release, "--locked", "--debug", "--force", "--root", home, *options]
        if subprocess.run(command, check=False, env={**os.environ, **lean}).returncode != 0:
            raise Missing(f"{release} cannot be built")
        shutil.rmtree(home / "build")
        mark.write_text(release)
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def call(port, method, path, headers=None, body=None):
    """One request to a store; its status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Store:
    """A store that runs. What the tests need to know of it is in `facts`."""

    def __init__(self, name, scratch):
        self.name, self.scratch, self.children = name, Path(scratch), []
        self.log = open(self.scratch / "log", "ab")

    def start(self, command, port, environment=None):
        child = subprocess.Popen(
            [str(part) for part in command], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
            start_new_session=True, cwd=self.scratch, env={**os.environ, **(environment or {})},
        )
        self.children.append(child)
        end = time.monotonic() + PATIENCE
        while not listens(port):
            if child.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.name} does not start:\n{self.said()}")
            time.sleep(0.1)

    def said(self):
        self.log.flush()
        return (self.scratch / "log").read_text(errors="replace")[-4000:]

    def stop(self):
        for child in self.children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGTERM)
                try:
                    child.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
        self.log.close()


def facts(url, endpoint, options, conditions, secret=None, wrong=None):
    lines = "\n".join(f"{key}={value}" for key, value in options.items())
    return {
        "GRANDSTAND_STORE_URL": url, "GRANDSTAND_STORE_OPTIONS": lines, "GRANDSTAND_STORE_ENDPOINT": endpoint,
        "GRANDSTAND_STORE_CONDITIONS": conditions, "GRANDSTAND_STORE_SECRET": secret or "",
        "GRANDSTAND_STORE_WRONG": wrong or "",
    }


def s3(port, key, secret, conditions, checks=True):
    options = {
        "aws_endpoint": f"http://127.0.0.1:{port}", "aws_access_key_id": key, "aws_secret_access_key": secret,
        "aws_region": "us-east-1",
    }
    named = ("aws_secret_access_key", secrets.token_hex(16)) if checks else (None, None)
    return facts(f"s3://{BUCKET}", "aws_endpoint", options, conditions, *named)


def azurite(store):
    program = npm(AZURITE, "azurite-blob")
    account, key, port = "grandstand", base64.b64encode(secrets.token_bytes(64)).decode(), free_port()
    store.start(
        [program, "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--blobHost", "127.0.0.1",
         "--blobPort", port, "--location", store.scratch / "data"],
        port, {"AZURITE_ACCOUNTS": f"{account}:{key}"},
    )
    # A container is made with a request that is signed as Azure's documentation says (Shared Key).
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    path = f"/{account}/{BUCKET}"
    fields = f"x-ms-date:{date}\nx-ms-version:2021-08-06"
    text = "PUT\n" + "\n" * 11 + f"{fields}\n/{account}{path}\nrestype:container"
    mac = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date, "x-ms-version": "2021-08-06", "Content-Length": "0",
        "Authorization": f"SharedKey {account}:{base64.b64encode(mac).decode()}",
    }
    status = call(port, "PUT", f"{path}?restype=container", headers)
    if status != 201:
        raise RuntimeError(f"azurite makes no container: {status}\n{store.said()}")
    options = {
        "azure_storage_account_name": account, "azure_storage_account_key": key,
        "azure_storage_endpoint": f"http://127.0.0.1:{port}/{account}",
    }
    wrong = base64.b64encode(secrets.token_bytes(64)).decode()
    return facts(f"az://{BUCKET}", "azure_storage_endpoint", options, "create replace", "azure_storage_account_key", wrong)


def s3rver(store):
    program, port = npm(S3RVER, "s3rver"), free_port()
    data = store.scratch / "data"
    data.mkdir()
    store.start(
        [program, "--silent", "--address", "127.0.0.1", "--port", port, "--directory", data, "--configure-bucket", BUCKET],
        port,
    )
    # It checks no signature of version 4, and whoever reads while an object is written gets half of it.
    return {**s3(port, "S3RVER", "S3RVER", "", checks=False), "GRANDSTAND_STORE_TORN": "yes"}


def moto(store):
    own = ROOT / "target" / "moto" / "bin" / "moto_server"
    program = own if own.exists() else shutil.which("moto_server")
    if not program:
        raise Missing("moto is missing; setup.sh installs it")
    port = free_port()
    store.start([program, "-H", "127.0.0.1", "-p", port], port)
    signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=tester/20261122/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"}
    status = call(port, "PUT", f"/{BUCKET}", signed)
    if status != 200:
        raise RuntimeError(f"moto makes no bucket: {status}")
    # It does not check the secret.
    return s3(port, "tester", "hunter2-of-moto", "create replace", checks=False)


def garage(store):
    program = crate(GARAGE, "--no-default-features", "--features", "bundled-libs,sqlite")
    key, secret, shared = f"GK{secrets.token_hex(12)}", secrets.token_hex(32), secrets.token_hex(32)
    ports, configs = [], []
    for number in range(NODES):
        api, rpc = free_port(), free_port()
        home = store.scratch / f"node-{number}"
        home.mkdir()
        config = home / "garage.toml"
        config.write_text(f"""
metadata_dir = "{home}/meta"
data_dir = "{home}/data"
db_engine = "sqlite"
replication_factor = {NODES}
rpc_secret = "{shared}"
rpc_bind_addr = "127.0.0.1:{rpc}"
rpc_public_addr = "127.0.0.1:{rpc}"
[s3_api]
s3_region = "us-east-1"
api_bind_addr = "127.0.0.1:{api}"
""")
        config.chmod(0o600)
        store.start([program, "-c", config, "server"], api)
        ports.append(api)
        configs.append(config)

    def ask(config, *words):
        command = [program, "-c", config, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    ids = [ask(config, "node", "id", "-q") for config in configs]
    for other in ids[1:]:
        ask(configs[0], "node", "connect", other)
    for own in ids:
        ask(configs[0], "layout", "assign", "-z", "here", "-c", "1G", own.split("@")[0])
    ask(configs[0], "layout", "apply", "--version", "1")
    ask(configs[0], "key", "import", "--yes", "-n", "fleet", key, secret)
    ask(configs[0], "bucket", "create", BUCKET)
    ask(configs[0], "bucket", "allow", "--read", "--write", BUCKET, "--key", key)
    return s3(ports[0], key, secret, "")


STORES = {"azurite": azurite, "s3rver": s3rver, "moto": moto, "garage": garage}


def test(environment, words):
    """Runs the tests of places, and those of fleets."""
    well = True
    for target, module in [(["--lib"], "fleet::bundle_store::tests::real"), (["--test", "wire"], "fleet::stores")]:
        command = ["cargo", "test", "--locked", *target, "--", "--ignored", module]
        # Words are parts of names of tests.
        if words:
            command[-1:] = words
        done = subprocess.run(
            command, check=False, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
        )
        print(done.stdout, flush=True)
        # Words choose tests of one of the two.
        ran = words or re.search(r"^test result: ok. [1-9]", done.stdout, re.MULTILINE)
        well = well and done.returncode == 0 and bool(ran)
    return well


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=", ".join(STORES))
    parser.add_argument("--all", action="store_true", help="all stores")
    own, words = sys.argv[1:], []
    if "--" in own:
        own, words = own[: own.index("--")], own[own.index("--") + 1 :]
    arguments = parser.parse_args(own)
    names = list(STORES) if arguments.all else arguments.stores or ["azurite"]
    unknown = [name for name in names if name not in STORES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    # A stop from outside stops the stores, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"grandstand-{name}-") as scratch:
            store = Store(name, scratch)
            try:
                environment = STORES[name](store)
                print(f"stores: {name}", flush=True)
                results[name] = 0 if test(environment, words) else 1
            except Missing as error:
                print(f"stores: {name}: {error}", file=sys.stderr)
                results[name] = 69
            except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
                print(f"stores: {name}: {error}\n{getattr(error, 'stderr', '') or ''}", file=sys.stderr)
                results[name] = 1
            finally:
                store.stop()
    words_of = {0: "all well", 1: "FAILED", 69: "not installed"}
    print("stores: " + ", ".join(f"{name}: {words_of[code]}" for name, code in results.items()))
    sys.exit(1 if 1 in results.values() else max(results.values()))


if __name__ == "__main__":
    main()
