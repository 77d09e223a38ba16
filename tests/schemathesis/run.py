#!/usr/bin/env python3
"""Runs Schemathesis against a demo server: whatever /openapi.json allows must be answered as it says.

    cargo build --locked
    tests/schemathesis/run.py                    # a demo of 400 listings without a limit, on free ports
    tests/schemathesis/run.py --examples 200     # look longer
    tests/schemathesis/run.py --url URL          # a server that is running, without a limit

Exit codes: 0 nothing found, 1 something found (or an error), 69 Schemathesis cannot be installed. Needs python3 with venv,
and the Python package index the first time; what it installs is below target/schemathesis. Everything runs on 127.0.0.1
and is stopped at the end.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from demo import demo, stop  # noqa: E402

# Open cases are answered by the table: read through, one client has two a minute, and then 503.
TABLE = "mirror.examine_per_hour=0"

ROOT = HERE.parent.parent
HOME = ROOT / "target" / "schemathesis"
RELEASE = "schemathesis==4.32.5"


def fail(message, code=1):
    print(f"schemathesis: {message}", file=sys.stderr)
    sys.exit(code)


def installed():
    """The program, installed where it is not yet."""
    program = HOME / "bin" / "schemathesis"
    mark = HOME / "installed"
    if program.exists() and mark.exists() and mark.read_text() == RELEASE:
        return program
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", HOME], check=False)
    if made.returncode == 0:
        made = subprocess.run([HOME / "bin" / "pip", "install", "--quiet", RELEASE], check=False)
    if made.returncode != 0:
        fail(f"{RELEASE} cannot be installed", 69)
    mark.write_text(RELEASE)
    return program


def has(url):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=60) as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "target" / "debug" / "grandstand", type=Path)
    parser.add_argument("--url", help="a server that is running")
    parser.add_argument("--examples", default=40, type=int, help="cases for each operation and phase")
    parser.add_argument("--seed", default=7, type=int)
    parser.add_argument("rest", nargs="*", help="more arguments for schemathesis, after --")
    arguments = parser.parse_args()
    program = installed()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        child, url = (None, arguments.url) if arguments.url else demo(arguments.binary, f"{directory}/data", TABLE)
        try:
            command = [
                program, "--config-file", HERE / "schemathesis.toml", "run", f"{url}/openapi.json", "--url", url, "--checks", "all", "--phases", "examples,coverage,fuzzing",
                "--max-examples", str(arguments.examples), "--seed", str(arguments.seed), "--continue-on-failure",
                "--request-timeout", "60", *arguments.rest,
            ]
            if not has(f"{url}/dumps/listings.csv"):
                print("SKIPPED: the files below /dumps/, which this server does not have")
                command += ["--exclude-path-regex", "^/dumps/"]
            environment = {**os.environ, "NO_PROXY": "127.0.0.1"}
            found = subprocess.run(command, check=False, cwd=directory, env=environment).returncode
        finally:
            if child:
                stop(child)
    print(f"schemathesis: {'nothing found' if found == 0 else 'something found'} in {time.monotonic() - began:.0f} s")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
