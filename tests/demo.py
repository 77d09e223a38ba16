"""A demo server, and a shield, for tests that are scripts."""

import json
import os
import re
import signal
import subprocess
import sys
import threading

# Seconds until everything is mirrored.
PATIENCE = 300


COMMON = ['listen=["127.0.0.1:0"]', 'admin.listen="127.0.0.1:0"', "rate_limit.requests_per_minute=0"]


def demo(binary, directory, *more):
    """Starts a demo, with `more` set; the process and its address once all details are here."""
    sets = [*COMMON, *more, f'data_dir="{directory}"', 'log.level="error"']
    child, lines = started([binary, "demo", "--listings", "400"], sets, lambda line: line.startswith("complete"))
    ready = next((line for line in lines if line.startswith("ready")), "")
    return child, re.search(r"https?://\S+", ready).group()


def shield(binary, origin, directory):
    """Starts a shield of an origin; the process and its address."""
    sets = [
        *COMMON, f'origin.url="{origin}"', "mirror.enabled=false", f'data_dir="{directory}"', 'log.format="json"',
        "origin.requests_per_minute=0",
    ]
    child, lines = started([binary, "serve"], sets, lambda line: '"msg":"serving"' in line)
    return child, f"http://{json.loads(lines[-1])['address']}"


def started(command, sets, is_last):
    """The process, and its lines up to one that `is_last`."""
    words = [str(word) for word in command] + [word for one in sets for word in ("--set", one)]
    child = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL,
    )
    lines, found = [], threading.Event()

    def read():
        for line in child.stdout:
            # What comes later is read, too, so that the process does not wait; and forgotten.
            if not found.is_set():
                lines.append(line)
            if is_last(line):
                found.set()
        found.set()

    threading.Thread(target=read, daemon=True).start()
    found.wait(PATIENCE)
    if child.poll() is not None or not lines or not is_last(lines[-1]):
        stop(child)
        sys.exit(f"grandstand did not start: {''.join(lines)}")
    return child, lines


def stop(child):
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, how)
        except ProcessLookupError:
            return
        try:
            child.wait(15)
            return
        except subprocess.TimeoutExpired:
            continue
