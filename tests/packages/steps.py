"""What the scripts here share: commands that are shown, conditions that are checked, and waiting."""

import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = pathlib.Path(sys.argv[0]).stem
# For each wait, in seconds.
PATIENCE = 120


def unavailable(why):
    """Ends the script: this machine lacks something."""
    print(f"{NAME}: {why}; nothing was checked")
    sys.exit(69)


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run([str(word) for word in command], **{"check": True, **options})


def output(*command, **options):
    return run(*command, stdout=subprocess.PIPE, text=True, **options).stdout


def check(holds, what):
    if not holds:
        sys.exit(f"{NAME}: {what}")
    print("  ok:", what, flush=True)


def check_links(top):
    """Every link of the pages below a directory leads to a file there, or to another host."""
    dead, seen = [], 0
    for page in top.rglob("*.md"):
        for target in re.findall(r"\]\(([^()\s#]+)", page.read_text()):
            seen += 1
            if not re.match("[a-z]+:", target) and not (page.parent / target).exists():
                dead.append(f"{page.relative_to(top)}: {target}")
    check(seen > 100 and not dead, f"no link of {seen} is dead {dead or ''}")


def wait_until(holds, what):
    """Waits until the condition holds, for `PATIENCE` at most; what it returned last."""
    end = time.monotonic() + PATIENCE
    while not (result := holds()):
        if time.monotonic() > end:
            sys.exit(f"{NAME}: after {PATIENCE} s it still does not hold: {what}")
        time.sleep(0.2)
    print("  ok:", what, flush=True)
    return result
