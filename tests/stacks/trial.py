"""One stack, tried: copied by a mirror, compared, changed, compared again, left alone, and what each of it costs.

Callers: run.py.
"""

import threading
import time
from collections import Counter

import compare
import queries
from mirror import TTL, Connection, Mirror
from processes import Children
from stacks import FRESH
from tap import Tap

PAGE = 100
PAGES = [f"/api/listings.json?page={page}&per_page={PAGE}" for page in (1, 2, 3)]
# Seconds until a mirror is ready, knows its origin, has followed a change, and has settled every doubt about one answer.
READY, LEARNED, FOLLOWED, SETTLED = 45, 120, 90, 30
IDLE = 4 * TTL
REFRESH = 5
# Requests that nobody promised and nobody minds.
SLACK = 5
# Seconds that two stamps of whole seconds and a change of several statements can be apart.
GRAIN = 2


class Watch(threading.Thread):
    """A client that asks for a page and a detail all the time, and must never be refused."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.ended, self.refused, self.asked = port, threading.Event(), [], 0

    def run(self):
        connection = Connection(self.port)
        while not self.ended.wait(0.3):
            for target in (PAGES[0], "/api/listings/12.json"):
                self.asked += 1
                try:
                    status = connection.get(target).status
                except OSError as error:
                    status = error
                if status != 200:
                    self.refused.append(f"{target}: {status}")


class Trial:
    def __init__(self, stack, binary, scratch):
        self.stack, self.binary, self.children, self.tap = stack, binary, Children(scratch), Tap()
        self.faults, self.notes, self.differed, self.early = [], [], set(), []

    def run(self):
        try:
            self.stand = self.stack.start(self.stack, self.children, self.tap.url)
            self.tap.open(self.stand.front)
            if self.stack.ties == "at first":
                self._pages_contradict()
            self.mirror = Mirror(self.binary, self.children, self.tap.url, self.stack.cache_ttl)
            if self._until(READY, self.mirror.ready):
                self._judge()
            else:
                self.faults.append(f"not ready within {READY} s: {self._last_error()}")
        finally:
            self.children.stop()
            self.tap.close()

    def _judge(self):
        watch = Watch(self.mirror.port)
        watch.start()
        if not self._until(LEARNED, self._knows_the_origin):
            self.faults.append(f"has not all details and verdicts within {LEARNED} s: {self._last_error()}")
        self._same("at first")
        self._changes("five changes", self.stand.world.small_change)
        self._changes("a bulk update", self.stand.world.bulk_change)
        self._idle()
        watch.ended.set()
        if watch.refused:
            self.faults.append(f"{len(watch.refused)} of {watch.asked} ordinary requests refused, such as {watch.refused[0]}")
        self._health()

    def _until(self, seconds, condition):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.25)
        return True

    def _knows_the_origin(self):
        _, status = self.mirror.status()
        details = status["details"]
        wanted = details["of"] if self.stack.partial else len(self.stand.world.ids)
        return details["mirrored"] >= wanted and status["disproved"] is not None

    def _last_error(self):
        _, status = self.mirror.status()
        return f"last_error {status['last_error']}, details {status['details']}, open cases {status['open_cases']}"

    def _pages_contradict(self):
        origin, seen = Connection(self.stand.direct), []
        for target in PAGES:
            seen += [item["id"] for item in compare.parse(origin.get(target).body)["items"]]
        doubled = len(seen) - len(set(seen))
        if not doubled:
            raise RuntimeError("the pages of this origin do not contradict each other, so that it tries nothing")
        self.notes.append(f"{doubled} rows on two pages of the origin, {len(self.stand.world.ids) - len(set(seen))} on none")

    def _differences(self, wanted, changed_at=float("inf")):
        """[(kind, target, what differs)]; each asked of the application itself and of the mirror.

        `changed_at`: whoever shows a list from before that, must not say that it was confirmed later.
        A cache without Age hides how old its copies are, so it is not held to that.
        """
        origin, mirror = Connection(self.stand.direct), Connection(self.mirror.port)
        addresses = (self.tap.url, self.mirror.url)
        found = []
        for kind, target in wanted:
            ours = mirror.get(target)
            formed = not kind.startswith("odd ") and kind != "other dates"
            formed &= not (self.stack.normalises and "modified_since" in target)
            what = compare.difference(origin.get(target), ours, addresses, not self.stack.ties, not self.stack.shuffles, formed)
            if what:
                found.append((kind, target, what))
                if kind == "pages" and not (self.stack.ties or self.stack.silent) and ours.confirmed > changed_at + GRAIN:
                    self.early.append(f"{target} {ours.confirmed - changed_at:.0f} s after the change: {what}")
        return found

    def _same(self, when):
        """Everything is as at the origin; what is not at once has a while to become so."""
        newest = compare.parse(Connection(self.stand.direct).get(PAGES[0]).body)["items"]
        wanted = [*queries.lists([item["modified"] for item in newest[::30]]), *queries.others(sorted(self.stand.world.ids))]
        asked = Counter(kind for kind, _ in wanted)
        start = time.monotonic()
        found = self._differences(wanted)
        while time.monotonic() < start + SETTLED and any(target not in self.differed for _, target, _ in found):
            time.sleep(2)
            found = self._differences([(kind, target) for kind, target, _ in found])
        self.notes.append(f"{when}: {len(wanted)} answers compared in {time.monotonic() - start:.0f} s, {len(found)} differ")
        for kind, count in Counter(kind for kind, _, _ in found).items():
            fresh = [f"\n      {target}: {what}" for one, target, what in found if one == kind and target not in self.differed]
            self.faults.append(f"{when}: {count} of {asked[kind]} {kind} differ, {len(fresh)} newly" + "".join(fresh[:6]))
        self.differed.update(target for _, target, _ in found)

    def _changes(self, what, change):
        start = time.monotonic()
        changed, changed_at = change(), time.time()
        if self.stack.ties and len(changed) > PAGE:
            self._pages_contradict()
        pages = [("pages", target) for target in PAGES] + [("details", f"/api/listings/{number}.json") for number in changed]
        followed = self._until(FOLLOWED, lambda: not self._differences(pages, changed_at))
        took = time.monotonic() - start
        # What a cache without Age made doubtful is asked once more.
        time.sleep(2 * self.stack.cache_ttl)
        seen = self.tap.since(start)
        passed = time.monotonic() - start
        count = len(PAGES) + 10
        details = len(changed)
        if self.stack.silent or self.stack.ties:
            count = 2 * len(PAGES) + 20
        if self.stack.ties:  # the copies might disagree for a while, and then what is missing is looked for
            count *= 2
        if self.stack.silent:
            details *= 2
        allowed = count + details + REFRESH * self._refreshes(seen, passed) + SLACK
        if self.stack.partial:  # what no page shows is read through for those who ask
            allowed *= 3
        self.notes.append(f"{what}: followed within {took:.0f} s, {len(seen)} requests of {allowed} allowed in {passed:.0f} s")
        if not followed:
            self.faults.append(f"{what}: not followed within {FOLLOWED} s: {self._last_error()}")
        if self.early:
            self.faults.append(f"{what}: Mirror-Confirmed is later than what is shown: {self.early[0]}")
        if len(seen) > allowed:
            self.faults.append(f"{what}: {len(seen)} requests in {passed:.0f} s, {allowed} allowed; most often {self._most(seen)}")
        self._same(f"after {what}")

    def _idle(self):
        # What clients had read through, and what the last change left in doubt, is over by then.
        time.sleep(2 * self.stack.cache_ttl)
        start = time.monotonic()
        time.sleep(IDLE)
        seen = self.tap.since(start)
        refreshes = self._refreshes(seen, IDLE)
        allowed = REFRESH * refreshes + SLACK + (IDLE // FRESH if self.stack.partial else 0)
        self.notes.append(f"idle: {len(seen)} requests in {IDLE} s, {sum(one.conditional for one in seen)} of them conditional, {refreshes} refreshes")
        if len(seen) > allowed:
            self.faults.append(f"idle: {len(seen)} requests in {IDLE} s, {allowed} allowed; most often {self._most(seen)}")

    @staticmethod
    def _refreshes(seen, seconds):
        """How many refreshes there were: each asks for each taxonomy once, and one may have begun before. Not more than may
        be: age is taken off each."""
        asked = Counter(one.target for one in seen)
        most = max(asked[f"/api/{kind}.json"] for kind in ("sports", "states", "cities"))
        return min(most, int(seconds / (0.3 * TTL)) + 2)

    @staticmethod
    def _most(seen):
        return ", ".join(f"{target} x{count}" for target, count in Counter(one.target for one in seen).most_common(4))

    def _health(self):
        code, status = self.mirror.status()
        told = {name: status.get(name) for name in ("disproved", "unproved", "findings")}
        self.notes.append(f"certificate {status['snapshot']['certificate']}, {told}")
        if code != 200:
            self.faults.append(f"/status is {code}: {status['reasons']}, last_error {status['last_error']}")
        if self.stack.disproves not in (None, bool(status["disproved"])):
            self.faults.append(f"disproved is {status['disproved']}")
