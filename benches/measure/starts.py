"""Starts from the durable snapshot, and the memory that is in use after one."""

import http.client
import signal
import statistics
import time

from .processes import check, resident, say, stop
from .row import spread
from .web import LIST, get, timeless


class Figure:
    """One line of a table: what, its values, and the most that they may be."""

    def __init__(self, title, values, unit, most=None):
        self.title, self.values, self.unit, self.most = title, values, unit, most

    def is_lost(self):
        return self.most is not None and statistics.median(self.values) > self.most

    def text(self):
        value = spread(self.values, 0) if len(self.values) > 1 else f"{self.values[0]:,.0f}"
        goal = "" if self.most is None else f"{self.most:,} {self.unit}".rstrip()
        title, mark = (f"**{self.title}**", " **lost**") if self.is_lost() else (self.title, "")
        return f"| {title} | {f'{value} {self.unit}'.rstrip()}{mark} | {goal} |"


def starts(server, expected, how, times, patience=60):
    """Milliseconds from starting the process to the first correct answer, after stopping it in some way."""
    taken = []
    for _ in range(times):
        stop(server.child, how)
        began = time.monotonic()
        server.start()
        while True:
            try:
                status, _, body = get(server.port, LIST)
                if status == 200 and timeless(body) == expected:
                    break
            except (OSError, http.client.HTTPException):
                pass
            check(time.monotonic() - began < patience, f"no correct answer within {patience} s of a start")
            time.sleep(0.0005)
        taken.append((time.monotonic() - began) * 1000)
    return taken


def memory(server, title, most=None):
    """Resident memory without what the reply cache holds. Limiter windows: one client's."""
    cache = server.status()["cache"]["bytes"] / 2**20
    whole, anonymous = resident(server.child)
    say(f"{title}: {whole:.0f} MiB, {anonymous:.0f} anonymous, {cache:.0f} in the reply cache")
    title = f"{title}, {anonymous:.0f} MiB of it anonymous, without {cache:.0f} MiB of replies"
    return Figure(title, [whole - cache], "MiB", most)


def run(bench, site, most_millis, most_mib, times=5):
    """Figures of one mirror, which is covered. It runs again at the end."""
    mirror, size = site.mirror, f"{site.listings:,} listings"
    figures = [memory(mirror, f"memory, {size}, before")]
    expected = timeless(get(mirror.port, LIST)[2])
    for title, how in (("SIGTERM", signal.SIGTERM), ("kill -9", signal.SIGKILL)):
        taken = starts(mirror, expected, how, times)
        say(f"start after {title}, {size}: {spread(taken, 0)} ms")
        figures.append(Figure(f"start to the first correct answer, {size}, after {title}", taken, "ms", most_millis))
    mirror.wait(600)
    time.sleep(1)
    title = f"memory, {size}, after a start from the durable snapshot"
    figures.append(memory(mirror, title, most_mib))
    return figures
