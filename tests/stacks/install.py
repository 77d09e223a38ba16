"""Programs and packages of the stacks, installed by name: apt, npm, pip. Nothing here starts anything.

What is installed already is used as it is. Stacks start side by side and install one after the other. Callers: stacks.py.
"""

import functools
import os
import shutil
import subprocess
import threading
from pathlib import Path

HOME = Path(__file__).resolve().parents[2] / "target" / "stacks"
# Where Debian has programs that are not in everybody's PATH.
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
POLICY = Path("/usr/sbin/policy-rc.d")
_turn = threading.Lock()


class Missing(Exception):
    """A package that cannot be installed."""


def _in_turn(function):
    @functools.wraps(function)
    def waits(*words):
        with _turn:
            return function(*words)

    return waits


def run(command, **options):
    command = [str(part) for part in command]
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **options).returncode


def _apt(packages):
    """Installs Debian packages; their servers are not started, now or at boot."""
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if not shutil.which("apt-get") or (as_root and not shutil.which("sudo")):
        return
    ours = not POLICY.exists()
    if ours:
        subprocess.run([*as_root, "tee", str(POLICY)], input=b"#!/bin/sh\nexit 101\n", stdout=subprocess.DEVNULL, check=False)
        run([*as_root, "chmod", "+x", POLICY])
    try:
        run([*as_root, "apt-get", "update", "-q"])
        noninteractive = ["env", "DEBIAN_FRONTEND=noninteractive"]
        run([*as_root, *noninteractive, "apt-get", "install", "-q", "-y", "--no-install-recommends", *packages])
    finally:
        if ours:
            run([*as_root, "rm", "-f", POLICY])


def _find(pattern):
    """A program by name, or by a pattern of its whole path: of several versions the newest."""
    if not pattern.startswith("/"):
        return shutil.which(pattern, path=PLACES)
    return max(map(str, Path("/").glob(pattern[1:])), default=None)


@_in_turn
def programs(wanted):
    """Installs the packages whose programs are missing (package: names or patterns); the paths, in order."""
    patterns = [pattern for found in wanted.values() for pattern in found]
    lacking = [package for package, found in wanted.items() if not all(map(_find, found))]
    if lacking:
        _apt(lacking)
    for package, found in wanted.items():
        for pattern in found:
            if not _find(pattern):
                raise Missing(f"{pattern} is missing; Debian's package is {package}")
    return [_find(pattern) for pattern in patterns]


@_in_turn
def npm(name, releases):
    """A directory whose `node_modules` has these packages; node finds them from any directory below."""
    if not (shutil.which("node") and shutil.which("npm")):
        _apt(["nodejs", "npm"])
    home, wanted = HOME / name, " ".join(releases)
    mark = home / "installed"
    if not (mark.exists() and mark.read_text() == wanted):
        home.mkdir(parents=True, exist_ok=True)
        options = ["--no-audit", "--no-fund", "--silent", "--ignore-scripts"]
        if not shutil.which("npm") or run(["npm", "install", "--prefix", home, *options, *releases]) != 0:
            raise Missing(f"{wanted} cannot be installed with npm")
        mark.write_text(wanted)
    return home


@_in_turn
def pip(name, releases):
    """A Python with these packages."""
    home, wanted = HOME / name, " ".join(releases)
    mark, python = home / "installed", home / "bin" / "python"
    if not (python.exists() and mark.exists() and mark.read_text() == wanted):
        made = run(["python3", "-m", "venv", home]) == 0
        if not made or run([python, "-m", "pip", "install", "-q", *releases]) != 0:
            raise Missing(f"{wanted} cannot be installed with pip")
        mark.write_text(wanted)
    return python
