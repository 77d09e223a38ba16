"""Servers under measurement: started on one core, watched, stopped. Not what they are or what they are asked."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")

# Everything that runs, to be stopped at the end.
children = []
given = set()


def fail(message):
    sys.exit(f"{Path(sys.argv[0]).stem}: {message}")


def check(condition, message):
    if not condition:
        fail(message)


def say(text):
    print(text, file=sys.stderr, flush=True)


def start(command, core, log, **options):
    """Starts a server on one core, in a process group of its own."""
    with open(log, "ab") as out:
        options = {"stdout": out, "stderr": out, **options}
        child = subprocess.Popen(["taskset", "-c", str(core), *map(str, command)], start_new_session=True, **options)
    child.log = log
    children.append(child)
    return child


def stop(child, how=signal.SIGTERM):
    """Stops a server with all its processes and waits for it."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, how)
        except ProcessLookupError:
            pass
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if child in children:
        children.remove(child)


def stop_all():
    for child in reversed(list(children)):
        stop(child)


def end_on_signals():
    """A signal ends the run in order; a second one does not keep it from stopping what it started."""
    numbers = (signal.SIGTERM, signal.SIGHUP)

    def end(*_):
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        sys.exit(1)

    for number in numbers:
        signal.signal(number, end)


def tree(root):
    """The process ids of a process and all its descendants."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            parents[int(entry)] = int(text.rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def cpu_seconds(child):
    """User and system time of all processes of a server, with what its ended children used."""
    ticks = 0
    for pid in tree(child.pid):
        fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
        if pid == child.pid:
            ticks += int(fields[13]) + int(fields[14])
    return ticks / TICKS


def resident(child):
    """Resident memory in MiB, all and without files."""
    text = Path("/proc", str(child.pid), "status").read_text()
    amount = lambda name: int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) / 1024
    return amount("VmRSS"), amount("RssAnon")


def peak(child):
    """Resident at most, in MiB."""
    text = Path("/proc", str(child.pid), "status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) / 1024


def reset_peak(child):
    """Lets the peak begin anew, where the kernel does that."""
    try:
        Path("/proc", str(child.pid), "clear_refs").write_text("5")
    except OSError:
        pass


def free_port():
    """A port that nobody has, and that this run was not given before."""
    while True:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        if port not in given:
            given.add(port)
            return port


def wait_for(what, seconds, condition, pause=0.05):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for child in children:
            if child.poll() is not None:
                fail(f"a server ended while waiting for {what}:\n{Path(child.log).read_text()[-2000:]}")
        try:
            result = condition()
            if result:
                return result
        except (OSError, http.client.HTTPException, ValueError):
            pass
        time.sleep(pause)
    fail(f"waited {seconds} s for {what} in vain")
