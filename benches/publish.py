#!/usr/bin/env python3
"""Measures what clients notice of a publication: the latency of hot pages at a fixed rate, with and without one.

    cargo build --release --locked
    python3 benches/publish.py                        # ten windows of eight seconds of each kind, in turns
    python3 benches/publish.py --rate 2000 --windows 20

In every other window the origin's data changes and the mirror is told to refresh; it is noted when the snapshot that is
served is another one, and a window in which that does not happen is left out and fails the run. wrk keeps connections
busy with a mix of hot pages, details and taxonomies, paced by a delay for each connection. Needs two cores and the
Debian packages wrk and util-linux. Everything runs on loopback, on free ports, in a temporary directory; all that was
started is stopped at the end. The server runs on the first core, wrk and the origin on the second. Prints a report in
Markdown.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from measure import tools
from measure.bench import argument_parser, begin
from measure.mirror import Grandstand, edit, start_origin
from measure.processes import check, say
from measure.row import spread
from measure.web import LIST, get

HERE = Path(__file__).resolve().parent
CONNECTIONS = 16
GOAL = 1.2
# The swap comes after a closing pass: of a window, this much has to be left for it, and for what it sets going.
SHORTEST, BEGIN, END = 6, 0.2, 0.8
SETS = ['ttl="1h"', "mirror.examine_per_hour=0"]


def hot_targets(port):
    """What everybody asks for: first pages, a few filters, some details, the taxonomies."""
    items = json.loads(get(port, LIST)[2])["items"]
    pages = [f"{LIST}?page={page}" for page in range(1, 41)]
    filters = [f"{LIST}?sport={sport}" for sport in sorted({item["sport"] for item in items})[:20]]
    details = [f"/api/listings/{item['id']}.json" for item in items[:40]]
    return pages + filters + details + ["/api/sports.json", "/api/states.json"]


def tally(admin):
    """What became of replies and codings, by outcome."""
    text = get(admin, "/metrics")[2].decode()
    lines = re.findall(r'^grandstand_cache_(?:replies|codings)_total\{outcome="([^"]+)"\} (\d+)$', text, re.MULTILINE)
    return {outcome: int(count) for outcome, count in lines}


class Watch(threading.Thread):
    """Looks which snapshot is served until a window is over, and may set off a publication. It looks in quiet windows
    too, since looking is load."""

    def __init__(self, ours, seconds, publish):
        super().__init__(daemon=True)
        self.ours, self.seconds, self.publish = ours, seconds, publish
        self.began, self.swapped, self.error = time.monotonic(), [], None

    def elapsed(self):
        return time.monotonic() - self.began

    def served(self):
        return get(self.ours.port, LIST)[1]["Mirror-Snapshot"]

    def run(self):
        try:
            served, publish = self.served(), self.publish
            while self.elapsed() < self.seconds:
                if publish and self.elapsed() >= BEGIN * self.seconds:
                    publish()
                    publish = None
                if served != (served := self.served()):
                    self.swapped.append(self.elapsed())
                time.sleep(0.05)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - told below, in the thread that can end the run
            self.error = error


def window(core, ours, file, options, publish=None):
    """What wrk counted in one window, with `swapped`: the seconds after which another snapshot was served."""
    delay, seconds = max(1, round(1000 * CONNECTIONS / options.rate)), options.seconds
    command = ["taskset", "-c", str(core), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency"]
    command += ["-H", f"Accept-Encoding: {options.coding}", "-s", str(HERE / "publish" / "hot.lua")]
    command += [f"http://127.0.0.1:{ours.port}", "--", str(file), str(delay)]
    watch = Watch(ours, seconds, publish)
    watch.start()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=seconds + 30)
    watch.join(seconds + 60)
    check(not watch.is_alive() and watch.error is None, f"the watch over a window failed: {watch.error!r}")
    found = re.search(r"^RESULT (.*)$", done.stdout, re.MULTILINE)
    check(found, f"wrk said nothing:\n{done.stdout}")
    result = json.loads(found[1])
    check(result["refused"] == 0 and result["broken"] == 0, f"answers that are none: {result}")
    return {**result, "swapped": watch.swapped}


def fault(result, published, seconds):
    """Why a window does not count; None if it does."""
    swapped = result["swapped"]
    if not published:
        return f"the snapshot changed after {swapped[0]:.1f} s of a quiet window" if swapped else None
    if not swapped:
        return f"nothing was published within {seconds} s"
    late = [at for at in swapped if not BEGIN * seconds <= at <= END * seconds]
    return f"published after {late[0]:.1f} of {seconds} s" if late else None


def arguments():
    parser = argument_parser(__doc__)
    parser.add_argument("--windows", type=int, default=10, help="of each kind")
    parser.add_argument("--seconds", type=int, default=8, help=f"of each window, {SHORTEST} at least")
    parser.add_argument("--rate", type=int, default=4000, help="requests per second, about")
    parser.add_argument("--listings", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=20, help="listings that change before a publication")
    parser.add_argument("--coding", default="gzip, deflate, br, zstd", help="Accept-Encoding")
    # So that another binary can be the mirror of an origin that knows how to change.
    parser.add_argument("--origin", help="the binary of the origin (the same)")
    options = parser.parse_args()
    check(options.seconds >= SHORTEST, f"--seconds: at least {SHORTEST}, or the swap comes after the window")
    return options


def main():
    options = arguments()
    binary, server_core, load_core, directory = begin("publish", options, ["wrk"])

    origin_binary = Path(options.origin or binary).resolve()
    origin_port, origin = start_origin(origin_binary, load_core, directory, options.listings)
    ours = Grandstand(binary, server_core, directory, origin_port, *SETS)
    ours.start()
    ours.wait(300)
    file = directory / "hot"
    file.write_text("\n".join(hot_targets(ours.port)) + "\n")

    def publish():
        check(edit(origin, f"touch {options.changes}") > 0, "the origin changed nothing")
        ours.refresh()

    for _ in range(2):
        window(load_core, ours, file, options)
    kept, faults = {"quiet": [], "with a publication": []}, []
    before = tally(ours.admin)
    for number in range(options.windows):
        for name, action in zip(kept, (None, publish)):
            result = window(load_core, ours, file, options, action)
            wrong = fault(result, bool(action), options.seconds)
            if wrong:
                faults.append(f"window {number + 1}, {name}: {wrong}")
            else:
                kept[name].append(result)
            at = ", ".join(f"{at:.1f} s" for at in result["swapped"]) or "never"
            say(f"window {number + 1}, {name}: p99 {result['p99']} us; published after: {at}; {wrong or 'kept'}")
        # What a publication sets going beside the list, such as the details, ends before the next window.
        ours.wait()
    after = tally(ours.admin)
    check(all(kept.values()), f"no window of a kind is left: {'; '.join(faults)}")

    quiet, busy = kept.values()
    print(f"* Command: `{tools.command_line()}`")
    print(f"* Machine: {tools.machine()}. Load average at the end: {os.getloadavg()[0]:.1f}.")
    print(f"* Versions: {tools.fingerprint(binary)}; {tools.version('wrk', '-v').split(' Copyright')[0]}.")
    rate = sum(each["requests"] for each in quiet) / sum(each["micros"] for each in quiet) * 1e6
    changes = f"{options.changes} of {options.listings:,} listings change before a publication"
    print(f"* {rate:,.0f} requests a second on {CONNECTIONS} connections; {changes};")
    print(f"  medians of {len(quiet)} and {len(busy)} windows of {options.seconds} s (least-most).")
    swaps = [at for each in busy for at in each["swapped"]]
    print(f"* Another snapshot was served {spread(swaps)} s after the beginning of a window.")
    print(f"* Windows that do not count: {'; '.join(faults) if faults else 'none'}.\n")
    print("| latency, microseconds | quiet | with a publication | ratio | goal |\n|---|---:|---:|---:|---:|")
    for name in ("p50", "p99"):
        cells = [spread([each[name] for each in some], 0) for some in (quiet, busy)]
        ratio = statistics.median(each[name] for each in busy) / statistics.median(each[name] for each in quiet)
        goal = f"{GOAL}" if name == "p99" else ""
        mark = " **lost**" if goal and ratio > GOAL else ""
        print(f"| {name} | {' | '.join(cells)} | {ratio:.2f}{mark} | {goal} |")
    told = ", ".join(f"{outcome} {after[outcome] - before.get(outcome, 0)}" for outcome in after)
    if told:
        print(f"\nReplies and codings meanwhile: {told}.")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
