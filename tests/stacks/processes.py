"""Child processes: started in groups of their own, stopped all together. Callers: run.py, stacks.py, mirror.py."""

import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

PATIENCE = 60
_handed_out, _lock = set(), threading.Lock()


def free_port():
    """A port of 127.0.0.1 that nobody listens on, and that no other stack was given."""
    with _lock:
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            if port not in _handed_out:
                _handed_out.add(port)
                return port


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Children:
    """The processes of one stack, and what they write."""

    def __init__(self, scratch):
        self.scratch, self.children, self.stopped = Path(scratch), [], False

    def log(self, name):
        return self.scratch / f"{name}.log"

    def start(self, name, command, port, environment=None):
        """Starts a program, and waits until it listens."""
        if self.stopped:
            raise RuntimeError("stopped")
        with open(self.log(name), "ab") as log:
            child = subprocess.Popen(
                [str(part) for part in command], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True, cwd=self.scratch, env={**os.environ, **(environment or {})},
            )
        self.children.append(child)
        end = time.monotonic() + PATIENCE
        while not listens(port):
            if child.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{name} does not start:\n{self.said(name)}")
            time.sleep(0.05)

    def said(self, name):
        path = self.log(name)
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def stop(self):
        self.stopped = True
        for child in reversed(self.children):
            for how in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(child.pid, how)
                    child.wait(5)
                    break
                except ProcessLookupError:
                    break
                except subprocess.TimeoutExpired:
                    continue
        self.children.clear()
