#!/usr/bin/env python3
"""Checks the scripts of the pages: their types by TypeScript, what they do by node's own tests.

    tests/scripts/run.py

Exit codes: 0 all well, 1 not, 69 TypeScript cannot be installed (then the tests have run all the same). Needs node 20 or
newer and npm, and the npm registry the first time; what it installs is below target/scripts.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE.parent.parent / "target" / "scripts"
RELEASE = "typescript@5.9.3"


def main():
    tested = subprocess.run(["node", "--test", HERE / "scripts.test.mjs"], check=False)
    if tested.returncode != 0:
        sys.exit(1)
    compiler = HOME / "node_modules" / "typescript" / "bin" / "tsc"
    if not compiler.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--prefix", HOME, "--no-audit", "--no-fund", "--silent", RELEASE]
        if subprocess.run(command, check=False).returncode != 0:
            print(f"scripts: {RELEASE} cannot be installed", file=sys.stderr)
            sys.exit(69)
    checked = subprocess.run(["node", compiler, "--project", HERE / "tsconfig.json"], check=False)
    sys.exit(1 if checked.returncode else 0)


if __name__ == "__main__":
    main()
