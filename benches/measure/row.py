"""One row of a report: figures of several servers, taken in turns, their ratios, and the goals. No text, no drawing."""

import statistics

OURS = "grandstand"
# Another binary of ours (`--against`), and by how much a change may make ours dearer before the report says so.
OLD, NOISE = "old grandstand", 1.03


class Row:
    """`goals`: at most this ratio of ours to a peer. `most`: at most this many microseconds of ours."""

    def __init__(self, title, goals=None, most=None):
        self.title, self.goals, self.most = title, goals or {}, most
        # Microseconds of CPU per request, and requests per second, of each round.
        self.micros, self.rates, self.bodies = {}, {}, {}

    def note(self, name, used, result):
        """Adds a round: seconds of CPU, and what the load generator counted."""
        self.micros.setdefault(name, []).append(used / result["requests"] * 1e6)
        self.rates.setdefault(name, []).append(result["requests"] / result["micros"] * 1e6)
        return self.micros[name][-1]

    def median(self, name):
        return statistics.median(self.micros[name])

    def peers(self):
        return [name for name in self.micros if name != OURS]

    def ratio(self, peer):
        """Of each round by itself: what disturbs a round disturbs all."""
        if OURS not in self.micros or not self.micros.get(peer):
            return None
        pairs = zip(self.micros[OURS], self.micros[peer])
        return statistics.median(ours / max(theirs, 1e-9) for ours, theirs in pairs)

    def lost_to(self, peer):
        ratio = self.ratio(peer)
        return ratio is not None and peer in self.goals and ratio > self.goals[peer]

    def too_slow(self):
        return self.most is not None and OURS in self.micros and self.median(OURS) > self.most

    def is_lost(self):
        return self.too_slow() or any(self.lost_to(peer) for peer in self.goals)


def spread(values, digits=1):
    """Median and range."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"
