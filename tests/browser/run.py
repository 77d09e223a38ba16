#!/usr/bin/env python3
"""Looks at every page in Chromium, as people do: with the mouse, by keyboard, without scripts, small, large and dark.

    cargo build --locked
    tests/browser/run.py                       # all tests
    tests/browser/run.py -- --test-name-pattern keyboard
    tests/browser/run.py --pictures DIR        # no tests, but pictures of the pages
    tests/browser/run.py --fluid 5000          # no tests, but how fluid a map of so many venues is

Exit codes: 0 all well, 1 not, 69 the browser or its driver is missing. Needs Debian's chromium, node 20 or newer and npm,
and the npm registry the first time; what it installs is below target/browser. Everything runs on 127.0.0.1 and is stopped
at the end.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOME = ROOT / "target" / "browser"
RELEASES = ["playwright-core@1.65.1", "axe-core@4.14.1"]


def fail(message, code=1):
    print(f"browser: {message}", file=sys.stderr)
    sys.exit(code)


def install():
    mark = HOME / "installed"
    if mark.exists() and mark.read_text() == " ".join(RELEASES):
        return
    HOME.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--prefix", HOME, "--no-audit", "--no-fund", "--silent", *RELEASES]
    if subprocess.run(command, check=False).returncode != 0:
        fail(f"{' and '.join(RELEASES)} cannot be installed", 69)
    mark.write_text(" ".join(RELEASES))


def shrink(directory):
    """Leaves each picture 96 colours: a third of the size, and nobody sees it. Needs Pillow; without it they stay large."""
    try:
        from PIL import Image
    except ImportError:
        print("browser: Pillow is missing, the pictures stay large", file=sys.stderr)
        return
    for picture in directory.glob("*.png"):
        Image.open(picture).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(picture, optimize=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "target" / "debug" / "grandstand", type=Path)
    parser.add_argument("--pictures", metavar="DIR", type=Path, help="take pictures instead")
    parser.add_argument("--fluid", metavar="VENUES", type=int, help="measure the map of the explorer instead")
    parser.add_argument("rest", nargs="*", help="more arguments for node's test runner, after --")
    arguments = parser.parse_args()
    browser = shutil.which("chromium")
    if not browser or not shutil.which("npm"):
        fail("chromium, node and npm are needed", 69)
    if not arguments.binary.exists():
        fail(f"{arguments.binary} is missing; build it with: cargo build --locked")
    install()
    environment = {
        **os.environ, "GRANDSTAND": str(arguments.binary.resolve()), "BROWSER_HOME": str(HOME), "CHROMIUM": browser,
    }
    if arguments.pictures:
        command = ["node", HERE / "pictures.mjs", arguments.pictures.resolve()]
    elif arguments.fluid:
        command = ["node", HERE / "fluid.mjs", str(arguments.fluid)]
    else:
        tests = sorted(HERE.glob("*.test.mjs"))
        command = ["node", "--test", "--test-reporter=spec", "--test-concurrency=1", "--test-timeout=600000", *arguments.rest, *tests]
    failed = subprocess.run(command, check=False, env=environment, cwd=ROOT).returncode
    if arguments.pictures and not failed:
        shrink(arguments.pictures)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
