#!/usr/bin/env python3
"""Generates clients from /openapi.json of a demo server, and uses them.

    cargo build --locked
    tests/clients/run.py

The generators: openapi-python-client, openapi-generator (python, typescript-fetch, java), openapi-typescript with tsc. The
clients for Python and the types for TypeScript are used against the server, and against a shield whose origin refuses
everything. Exit codes: 0 all well, 1 not, 69 a generator cannot be installed. Needs
python3 with venv, node with npm, Java, and the package registries the first time; what it installs is below
target/clients. Everything runs on 127.0.0.1 and is stopped at the end.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOME = ROOT / "target" / "clients"
sys.path.insert(0, str(HERE.parent))

from demo import demo, shield, stop  # noqa: E402

PYTHON = [
    "openapi-python-client==0.29.1", "openapi-generator-cli==7.26.0", "pydantic==2.14.4", "python-dateutil==4.0.0",
    "urllib3==2.8.0",
]
NODE = ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3"]
BIN = HOME / "venv" / "bin"
# What the generators write to standard error where they give something up.
GIVEN_UP = ["Unable to", "Invalid property", "removal of", "Exception", "ERROR"]

# The bodies of an origin that refuses everything.
REFUSALS = {
    "html": ("text/html", "<h1>gone</h1>"),
    "object": ("application/json", '{"error": {"code": "gone"}}'),
    "list": ("application/json", '["gone"]'),
    "problem": ("application/problem+json", '{"reason": "gone"}'),
    "text": ("text/plain", "gone"),
}


class Refusing(BaseHTTPRequestHandler):
    """Answers with the status that `city` names and the body that `sport` names."""

    def do_GET(self):
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        kind, body = REFUSALS[query.get("sport", "html")]
        self.send_response(int(query.get("city", 404)))
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def done(command, **more):
    return subprocess.run([str(part) for part in command], check=False, **more).returncode == 0


def installed():
    """Whether all generators are there, installed where they are not yet."""
    mark, wanted = HOME / "installed", "\n".join(PYTHON + NODE)
    if mark.exists() and mark.read_text() == wanted:
        return True
    if not shutil.which("java") or not shutil.which("npm"):
        return False
    HOME.mkdir(parents=True, exist_ok=True)
    made = (
        done([sys.executable, "-m", "venv", "--clear", HOME / "venv"])
        and done([BIN / "pip", "install", "--quiet", *PYTHON])
        and done(["npm", "install", "--prefix", HOME, "--no-audit", "--no-fund", "--silent", *NODE])
    )
    if made:
        mark.write_text(wanted)
    return made


def generated(name, command, directory):
    """Whether a generator ends well and gives nothing up."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    command = [str(part) for part in command]
    ran = subprocess.run(command, check=False, cwd=directory, env=environment, capture_output=True, text=True, timeout=300)
    said = (ran.stdout + ran.stderr).splitlines()
    # openapi-generator names each file that it writes, some of them after errors.
    lost = [line for line in said if any(word in line for word in GIVEN_UP) and "writing file" not in line]
    if ran.returncode != 0 or lost:
        print(f"clients: {name} ended with {ran.returncode}", *(lost or said[-20:]), sep="\n  ", file=sys.stderr)
        return False
    print(f"clients: {name} has generated a client")
    return True


def tried(url, refusing, directory):
    """Generates and uses everything in a directory; `refusing` is the address of a shield."""
    description = directory / "openapi.json"
    with urllib.request.urlopen(f"{url}/openapi.json", timeout=60) as answer:
        description.write_bytes(answer.read())
    (directory / "package.json").write_text('{"type": "module"}')
    (directory / "node_modules").symlink_to(HOME / "node_modules")
    for name in ["use.py", "use_typed.py", "use.ts"]:
        shutil.copy(HERE / name, directory)
    tools = HOME / "node_modules"
    well = generated(
        "openapi-python-client",
        [BIN / "openapi-python-client", "generate", "--path", description, "--output-path", "client", "--meta", "none"],
        directory,
    )
    for language in ["python", "typescript-fetch", "java"]:
        command = [BIN / "openapi-generator-cli", "generate", "-i", description, "-g", language, "-o", f"of-{language}"]
        well &= generated(f"openapi-generator ({language})", command, directory)
    well &= generated(
        "openapi-typescript",
        ["node", tools / "openapi-typescript" / "bin" / "cli.js", description, "--output", "schema.d.ts"],
        directory,
    )
    if not well:
        return False
    compiler = ["node", tools / "typescript" / "bin" / "tsc", "--strict", "--noUncheckedIndexedAccess"]
    compiled = done([*compiler, "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "use.ts"], cwd=directory)
    uses = [["node", "use.js"], [BIN / "python", "use.py"], [BIN / "python", "use_typed.py"]]
    return compiled and all(done([*use, url, refusing], cwd=directory) for use in uses)


def main():
    if not installed():
        print("clients: a generator, Java or npm is missing and cannot be installed", file=sys.stderr)
        sys.exit(69)
    binary = Path(os.environ.get("GRANDSTAND", ROOT / "target" / "debug" / "grandstand"))
    with tempfile.TemporaryDirectory() as directory, ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as origin:
        threading.Thread(target=origin.serve_forever, daemon=True).start()
        child, url = demo(binary, f"{directory}/data")
        before, refusing = shield(binary, f"http://127.0.0.1:{origin.server_port}", f"{directory}/shield")
        try:
            work = Path(directory) / "work"
            work.mkdir()
            well = tried(url, refusing, work)
        finally:
            stop(child)
            stop(before)
            origin.shutdown()
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
