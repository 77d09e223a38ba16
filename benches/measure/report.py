"""Rows and figures as Markdown."""

import statistics

from .row import OURS, spread

PREAMBLE = """\
How it is measured: server processes on core 0 with one worker each, load and origin on core 1, all on loopback; user
and system time of all processes of a server, divided by requests. Everything that grandstand does by default is on;
nginx has `limit_req` and our response headers, Varnish no limiter and only its own headers. H2O serves our bodies as
files, with one thread; it has no limiter and sends fewer fields, so it is a direction and not a promise. Bare pingora
and the loop in C send our bytes and do nothing else. Decoded bodies were equal before timing; as browsers ask, ours
are coded by zstd and the others' by gzip. The gzip of nginx and Varnish is the origin's, at the origin's level, ours
and H2O's is level 6: the sizes are in the tables. Datasette as installed logs each request. What runs with which
options is in `benches/measure/`. Rows in bold miss a goal.

Settings of grandstand that are not the defaults: `origin.requests_per_minute=0` and `origin.cache_ttl="1s"`, so that
mirroring does not take hours; `rate_limit.requests_per_minute=100000000`, a limit that is never reached; for queries
`mirror.details="on-demand"` and, where it says no reply cache, `cache.max_bytes="1KiB"`; for the cold key
`mirror.enabled=false`."""


def ratio_text(ratio):
    return f"{ratio:.2f}" if ratio >= 0.2 else f"1/{1 / max(ratio, 1e-6):.0f}"


def micros_text(values):
    """Microseconds, or milliseconds where there are many."""
    return spread(values) if statistics.median(values) < 1000 else f"{spread([v / 1000 for v in values])} ms"


def table(title, rows):
    names = [OURS]
    for row in rows:
        names += [name for name in row.micros if name not in names]
    peers = names[1:]
    heads = [title, *names, *(f"of {peer}" for peer in peers), "body bytes", "requests/s"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for row in rows:
        cells = [f"**{row.title}**" if row.is_lost() else row.title]
        for name in names:
            text = micros_text(row.micros[name]) if name in row.micros else ""
            if name == OURS and row.most is not None:
                text += f" **lost**, goal {row.most:.0f}" if row.too_slow() else f", goal {row.most:.0f}"
            cells.append(text)
        for peer in peers:
            ratio = row.ratio(peer)
            missing = "not measured" if peer in row.goals else ""
            text = missing if ratio is None else ratio_text(ratio)
            if ratio is not None and peer in row.goals:
                goal = ratio_text(row.goals[peer])
                text = f"**{text} lost**, goal {goal}" if row.lost_to(peer) else f"{text}, goal {goal}"
            cells.append(text)
        cells.append(" / ".join(f"{row.bodies[name]:,}" for name in names if name in row.bodies))
        rates = [row.rates[name] for name in names if name in row.rates]
        cells.append(" / ".join(f"{statistics.median(rate):,.0f}" for rate in rates))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def figures_table(figures):
    lines = ["| memory, starts, requests | median (least-most) | goal |", "|---|---:|---:|"]
    return "\n".join([*lines, *(figure.text() for figure in figures)])


def unmeasured(tables):
    """Goals of rows without the figures that it takes to judge them."""
    rows = [row for _, rows in tables for row in rows]
    wanted = [(row, OURS) for row in rows if row.most is not None and OURS not in row.micros]
    wanted += [(row, peer) for row in rows for peer in row.goals if row.ratio(peer) is None]
    return [f"{row.title} ({name})" for row, name in wanted]


def report(bench, tables, figures):
    """The whole: what was run where, then each table, then what else there is to say."""
    options = bench.options
    lines = [
        f"# Side by side, {bench.date}",
        "",
        PREAMBLE,
        "",
        f"* Command: `{bench.command}`",
        f"* Machine: {bench.machine}. Load average at the end: {bench.load:.1f}.",
        f"* Versions: {'; '.join([*bench.base_versions, *sorted(bench.versions)])}.",
        "* Microseconds of CPU per request unless it says ms: median (least-most) of "
        f"{options.rounds} rounds of {options.seconds} s.",
        "  Ratios: median of the rounds' own ratios. Body bytes and requests per second: in the order of the columns.",
    ]
    lost = [row.title for _, rows in tables for row in rows if row.is_lost()]
    lost += [figure.title for figure in figures if figure.is_lost()]
    lines.append(f"* Rows that miss a goal: {'; '.join(lost) if lost else 'none of those that were measured'}.")
    missing = [*unmeasured(tables), *bench.unmeasured]
    lines.append(f"* Not measured, and so neither met nor missed: {'; '.join(missing) if missing else 'nothing'}.")
    for title, rows in tables:
        if rows:
            lines += ["", table(title, rows)]
    if figures:
        lines += ["", figures_table(figures)]
    if bench.notes:
        lines += ["", *(f"* {note}" for note in bench.notes)]
    return "\n".join(lines) + "\n"
