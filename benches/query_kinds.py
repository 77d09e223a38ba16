#!/usr/bin/env python3
"""Measures queries that nobody asked before by kind, at 10,000 and at 1,000,000 listings, in turns.

    cargo build --release --locked
    python3 benches/query_kinds.py
    python3 benches/query_kinds.py --large 100000 --rounds 1 --seconds 1

Any page, a city, a page of a state, and a sport since a minute: CPU of the server per request, and what the larger size
costs of the smaller one. The reply cache holds nothing; with `--cached` it has its default size, and a `modified_since`
from before all data makes each query unique. Servers run on the first core, load and origins on the second.
"""

import json
import random
import statistics

from measure.bench import argument_parser, begin
from measure.load import wrk
from measure.mirror import Grandstand, start_origin
from measure.processes import check, cpu_seconds, resident, say
from measure.row import spread
from measure.tools import command_line, machine
from measure.web import LIST, get

COUNT = 20_000
NO_CACHE = 'cache.max_bytes="1KiB"'


def terms(port, kind):
    """Slugs and counts of a taxonomy."""
    return [(term["slug"], term["count"]) for term in json.loads(get(port, f"/api/{kind}.json")[2])["items"]]


def queries(port, listings, unique):
    """Query strings by kind; terms are drawn by how many listings they have."""
    dice = random.Random(5)
    known = {kind: terms(port, kind) for kind in ("sports", "states", "cities")}
    draw = lambda kind: dice.choices(known[kind], [count for _, count in known[kind]])[0]
    pages = lambda total, per_page: max(1, -(-total // per_page))

    def any_page():
        per_page = dice.randint(48, 52)
        return f"per_page={per_page}&page={dice.randint(1, pages(listings, per_page))}"

    def page_of_a_state():
        state, total = draw("states")
        return f"state={state}&page={dice.randint(1, pages(total, 50))}"

    def since_a_minute():
        day = f"20{dice.randint(18, 25)}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"
        return f"sport={draw('sports')[0]}&modified_since={day}T{dice.randint(0, 23):02}:{dice.randint(0, 59):02}:00.#Z"

    ways = {"any page": any_page, "a city": lambda: f"city={draw('cities')[0]}", "a page of a state": page_of_a_state}
    suffix = "&modified_since=1990-01-01T00:00:00.#Z" if unique else ""
    lines = {kind: [way() + suffix for _ in range(COUNT)] for kind, way in ways.items()}
    return lines | {"a sport, since a minute": [since_a_minute() for _ in range(COUNT)]}


def main():
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("--small", type=int, default=10_000)
    add("--large", type=int, default=1_000_000)
    add("--rounds", type=int, default=5)
    add("--seconds", type=int, default=2)
    add("--cached", action="store_true", help="with a reply cache of the default size")
    options = parser.parse_args()
    binary, server_core, load_core, directory = begin("query-kinds", options, ["wrk"])
    sites = {}
    for listings in (options.small, options.large):
        where = directory / str(listings)
        where.mkdir()
        port, _ = start_origin(binary, load_core, where, listings)
        sets = ['mirror.details="on-demand"', *([] if options.cached else [NO_CACHE])]
        mirror = Grandstand(binary, server_core, where / "mirror", port, *sets)
        mirror.start()
        mirror.wait(1800)
        files = {}
        for kind, lines in queries(mirror.port, listings, options.cached).items():
            files[kind] = where / kind.replace(" ", "-")
            files[kind].write_text("\n".join(lines) + "\n")
        sites[listings] = mirror, files
        say(f"{listings:,} listings mirrored; {resident(mirror.child)[0]:.0f} MiB")

    micros, sizes, sent = {}, {}, 1000
    for number in range(options.rounds):
        for kind in files:
            for listings, (mirror, asked) in sites.items():
                before = cpu_seconds(mirror.child)
                result = wrk(load_core, mirror.port, LIST, options.seconds, None, "mix.lua", (asked[kind], sent))
                used = cpu_seconds(mirror.child) - before
                check(result["refused"] == 0 and result["broken"] == 0, f"{kind}: {result}")
                sent += result["requests"] + 1000
                micros.setdefault((kind, listings), []).append(used / result["requests"] * 1e6)
                sizes[kind, listings] = round(result["bytes"] / result["requests"])
        say(f"round {number + 1}")

    print(f"* Command: `{command_line()}`\n* Machine: {machine()}")
    print("* Microseconds of CPU per request: median (least-most). Ratio: median of the rounds' own ratios.\n")
    print(f"| | {options.small:,} | {options.large:,} | ratio | bytes of an answer |\n|---|---:|---:|---:|---:|")
    for kind in files:
        small, large = micros[kind, options.small], micros[kind, options.large]
        ratio = statistics.median(more / less for less, more in zip(small, large))
        both = f"{sizes[kind, options.small]:,} / {sizes[kind, options.large]:,}"
        print(f"| {kind} | {spread(small, 1)} | {spread(large, 1)} | {ratio:.2f} | {both} |")


if __name__ == "__main__":
    main()
