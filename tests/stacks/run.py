#!/usr/bin/env python3
"""Runs grandstand as a mirror of real server stacks, each with its cache in front, and compares every answer.

    tests/stacks/run.py                       # all of them
    tests/stacks/run.py php express           # some
    tests/stacks/run.py --binary PATH --keep  # a binary that is built already; logs and data stay

    php         Apache, PHP-FPM and SQLite, behind mod_cache: local dates, numbers by (int), \\/ and \\u, -gzip tags
    php-mark    the same, with a byte order mark before each body
    php-text    the same, times compared as text by SQLite
    perl        Apache and a Perl CGI: another order of keys in each process, no entity tags
    express     Express behind nginx proxy_cache, which sends no Age and updates in the background
    window      the same with pages of 50 at most, and errors beyond the first 200 results, which `total` stops at
    django      Django REST framework behind Varnish with grace
    fastapi     FastAPI with fastapi-cache2: weak tags, no Age, 422 for what is not valid
    postgres    PostgreSQL and Fastify behind HAProxy; `arrays`, `hidden`, `ties` and `late-ties` are the same with details
                in arrays, with rows that are deleted softly and counted, and with an order that is not unique
    edge        the same as postgres, behind Varnish with weak tags

Installs what is missing: Debian packages, and npm and PyPI packages below target/stacks. Each stack starts on free ports with
its data in a temporary directory. A mirror copies it; some 700 answers are compared with those of the application itself, byte
for byte inside listings, after the first copy, after five changes and after a bulk update. Requests to the stack are counted.
Everything runs on 127.0.0.1 and is stopped at the end.

Exit codes: 0 all well, 1 not, 69 something cannot be installed (the other stacks were tried). Needs cargo unless --binary is given.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from install import Missing
from stacks import STACKS
from trial import Trial

ROOT = Path(__file__).resolve().parents[2]
WELL, FAILED, MISSING = 0, 1, 69


def build():
    subprocess.run(["cargo", "build", "--locked"], cwd=ROOT, check=True)
    return ROOT / "target" / "debug" / "grandstand"


def attempt(name, binary, keep, running):
    """Tries one stack. Its exit code, and what is to be printed."""
    scratch = Path(tempfile.mkdtemp(prefix=f"grandstand-{name}-"))
    # Servers that give up root read it, too.
    scratch.chmod(0o755)
    trial = Trial(STACKS[name], binary, scratch)
    running.append(trial)
    start = time.monotonic()
    try:
        trial.run()
        code, lines = (FAILED if trial.faults else WELL), []
    except Missing as error:
        code, lines = MISSING, [f"  {error}"]
    except Exception:  # whatever one stack breaks, the others are tried
        code, lines = FAILED, [traceback.format_exc()]
    finally:
        if not keep:
            shutil.rmtree(scratch, ignore_errors=True)
    head = f"stacks: {name}: {STACKS[name].words} ({time.monotonic() - start:.0f} s{f', {scratch}' if keep else ''})"
    return code, [head, *(f"    {note}" for note in trial.notes), *(f"  FAULT {fault}" for fault in trial.faults), *lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stacks", nargs="*", metavar="STACK", help=", ".join(STACKS))
    parser.add_argument("--binary", type=Path, help="the program; without it, cargo builds one")
    parser.add_argument("--jobs", type=int, default=6, help="how many stacks at once (they mostly wait)")
    parser.add_argument("--keep", action="store_true", help="leave the temporary directories")
    arguments = parser.parse_args()
    names = arguments.stacks or list(STACKS)
    unknown = [name for name in names if name not in STACKS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    binary = (arguments.binary or build()).resolve()
    running, results = [], {}
    # A stop from outside stops the stacks, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    pool = ThreadPoolExecutor(arguments.jobs)
    try:
        tries = {name: pool.submit(attempt, name, binary, arguments.keep, running) for name in names}
        for name, one in tries.items():
            results[name], lines = one.result()
            print("\n".join(lines), flush=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for trial in running:
            trial.children.stop()
    words = {WELL: "all well", FAILED: "FAILED", MISSING: "not installed"}
    print("stacks: " + ", ".join(f"{name}: {words[code]}" for name, code in results.items()))
    sys.exit(FAILED if FAILED in results.values() else max(results.values()))


if __name__ == "__main__":
    main()
