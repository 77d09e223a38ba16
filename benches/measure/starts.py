"""Starts from the durable snapshot, and the memory in use: after the first crawl, and after a start."""

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
    """All resident memory, the reply cache too, which is next to empty where there is a goal. Limiter windows: one
    client's. What the cache says of itself is room that it sets aside, for codings too that nobody has asked for: to
    take that away takes away too much, so that is given beside and not judged."""
    cache = server.status()["cache"]["bytes"] / 2**20
    whole, anonymous = resident(server.child)
    say(f"{title}: {whole:.1f} MiB, {anonymous:.1f} anonymous; room set aside for replies: {cache:.1f}")
    figures = [Figure(f"{title}, all of it ({anonymous:.0f} MiB anonymous)", [whole], "MiB", most)]
    if cache >= 0.5:
        less = f"{title}, without the {cache:.1f} MiB of room for replies: at least"
        figures.append(Figure(less, [max(whole - cache, 0)], "MiB"))
    return figures


def just_mirrored(site, most_mib):
    """Memory before anybody has asked for anything."""
    return memory(site.mirror, f"memory, {site.listings:,} listings, just mirrored", most_mib)


def run(bench, site, most_millis, most_mib, times=5):
    """Figures of one mirror, which is covered. It runs again at the end."""
    mirror, size = site.mirror, f"{site.listings:,} listings"
    figures = memory(mirror, f"memory, {size}, after the load of this run")
    expected = timeless(get(mirror.port, LIST)[2])
    for title, how in (("SIGTERM", signal.SIGTERM), ("kill -9", signal.SIGKILL)):
        taken = starts(mirror, expected, how, times)
        say(f"start after {title}, {size}: {spread(taken, 0)} ms")
        figures.append(Figure(f"start to the first correct answer, {size}, after {title}", taken, "ms", most_millis))
    mirror.wait(600)
    time.sleep(1)
    title = f"memory, {size}, after a start from the durable snapshot"
    return [*figures, *memory(mirror, title, most_mib)]
