"""A relay before the origin that can be told to fail: connections are closed unanswered. Not what is asked through it."""

import socket
import threading


class Relay:
    """Listens on a free port of 127.0.0.1 and passes bytes on."""

    def __init__(self, to):
        self.to, self.fails = to, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open, self.lock = set(), threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def fail(self):
        """Ends what is open, and what comes."""
        self.fails.set()
        with self.lock:
            for sock in self.open:
                end(sock)

    def work(self):
        self.fails.clear()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            if self.fails.is_set():
                client.close()
                continue
            try:
                origin = socket.create_connection(("127.0.0.1", self.to), 5)
            except OSError:
                client.close()
                continue
            for pair in ((client, origin), (origin, client)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, come, go):
        with self.lock:
            self.open.add(come)
        try:
            while data := come.recv(65536):
                go.sendall(data)
        except OSError:
            pass
        with self.lock:
            self.open.discard(come)
        end(go)
        end(come)
        come.close()


def end(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
