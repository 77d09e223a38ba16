"""A tap in the line between grandstand and a stack: passes bytes on as they are, and notes each request.

It is the address that the mirror knows as its origin. Requests have no bodies here, so each head ends a request.
Callers: trial.py.
"""

import socket
import threading
import time
from collections import namedtuple

Seen = namedtuple("Seen", "at target conditional")


class Tap:
    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.seen, self.port = [], None

    def open(self, port):
        """From now on connections reach this port."""
        self.port = port
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def since(self, start):
        """The requests after an instant of `time.monotonic()`."""
        return [seen for seen in list(self.seen) if seen.at >= start]

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.port), timeout=10)
                server.settimeout(None)
            except OSError:
                if self.listener.fileno() < 0:
                    return
                client.close()
                continue
            for one, other, note in [(client, server, self._note), (server, client, None)]:
                threading.Thread(target=_pass_on, args=(one, other, note), daemon=True).start()

    def _note(self, rest, data):
        *heads, rest = (rest + data).split(b"\r\n\r\n")
        for head in heads:
            target = head.split(b" ", 2)[1].decode("latin-1")
            self.seen.append(Seen(time.monotonic(), target, b"\r\nif-none-match:" in head.lower()))
        return rest


def _pass_on(one, other, note):
    rest = b""
    try:
        while data := one.recv(65536):
            if note:
                rest = note(rest, data)
            other.sendall(data)
    except OSError:
        pass
    for end, how in [(other, socket.SHUT_WR), (one, socket.SHUT_RD)]:
        try:
            end.shutdown(how)
        except OSError:
            pass
