"""A demo server for tests that are scripts."""

import os
import re
import signal
import subprocess
import sys
import threading

# Seconds until everything is mirrored.
PATIENCE = 300


def demo(binary, directory):
    """Starts a demo; the process and its address once all details are here."""
    command = [
        binary, "demo", "--listings", "400", "--set", 'listen=["127.0.0.1:0"]', "--set", 'admin.listen="127.0.0.1:0"',
        "--set", "rate_limit.requests_per_minute=0", "--set", f'data_dir="{directory}"', "--set", 'log.level="error"',
    ]
    child = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, text=True, start_new_session=True, stdin=subprocess.DEVNULL
    )
    said, complete = [], threading.Event()

    def read():
        for line in child.stdout:
            said.append(line)
            if line.startswith("complete"):
                complete.set()
        complete.set()

    threading.Thread(target=read, daemon=True).start()
    complete.wait(PATIENCE)
    ready = next((line for line in said if line.startswith("ready")), "")
    address = re.search(r"https?://\S+", ready)
    if not address or child.poll() is not None:
        stop(child)
        sys.exit(f"the demo did not start: {''.join(said)}")
    return child, address.group()


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
