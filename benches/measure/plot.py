"""CPU per request as bars in SVG: ours, the peers, and what is lost. No library; readable in light and dark."""

import math
import statistics
from html import escape

from .row import OURS

WIDTH, MARGIN, GAP = 600, 16, 24
NAMES, VALUES = 140, 200
BAR, PITCH, TITLE, SECTION = 11, 15, 22, 44

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 } .section { font-size: 14px; font-weight: 700 } .small { font-size: 11px; fill: #59636e }
  .page { fill: #ffffff } .ours { fill: #1a7f37 } .peer { fill: #8c959f } .lost { fill: #cf222e }
  .goal { stroke: #1f2328 }
  text.lost { font-weight: 700 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 }
    .page { fill: #0d1117 } .ours { fill: #3fb950 } .peer { fill: #6e7681 } .lost { fill: #ff7b72 }
    .goal { stroke: #e6edf3 }
  }
"""


def amount(micros):
    if micros >= 100_000:
        return f"{micros / 1000:,.0f} ms"
    return f"{micros / 1000:.1f} ms" if micros >= 1000 else f"{micros:.1f} µs"


class Scale:
    """From microseconds to a length: logarithmic where the largest is a hundred times the least."""

    def __init__(self, values, length):
        self.least, self.most, self.length = min(values), max(values), length
        self.logarithmic = self.most > 100 * self.least

    def __call__(self, value):
        if not self.logarithmic:
            return self.length * value / self.most
        floor = self.least / 2
        return self.length * max(math.log(value / floor), 0.02) / math.log(self.most / floor)


def limit(row):
    """The most microseconds that the goals leave to ours, by the rounds' own ratios; None without a goal."""
    goals = [(goal, row.ratio(peer)) for peer, goal in row.goals.items() if row.ratio(peer)]
    limits = [row.median(OURS) * goal / ratio for goal, ratio in goals]
    return min([*limits, *([row.most] if row.most else [])], default=None)


def draw_row(out, row, scale, left, top):
    lost = row.is_lost()
    title = escape(row.title.replace("`", ""))
    out.append(f'<text class="title" x="{left}" y="{top + 15}">{title}</text>')
    top += TITLE
    for name, micros in row.micros.items():
        value = statistics.median(micros)
        kind, mark = "peer", ""
        if name == OURS:
            kind = "lost" if lost else "ours"
            mark = '<tspan class="lost" dx="6">✗ misses its goal</tspan>' if lost else ""
        length, start = max(scale(value), 1), left + NAMES
        after = start + length + 5
        out.append(f'<text class="small" x="{start - 6}" y="{top + 9}" text-anchor="end">{escape(name)}</text>')
        out.append(f'<rect class="{kind}" x="{start}" y="{top}" width="{length:.1f}" height="{BAR}" rx="2"/>')
        if name == OURS and limit(row):
            at = start + scale(limit(row))
            out.append(f'<line class="goal" x1="{at:.1f}" x2="{at:.1f}" y1="{top - 2}" y2="{top + BAR + 2}"/>')
            after = max(after, at + 5)
        out.append(f'<text class="small" x="{after:.1f}" y="{top + 9}">{amount(value)}{mark}</text>')
        top += PITCH
    return top


def draw_section(out, title, rows, left, top):
    values = [statistics.median(micros) for row in rows for micros in row.micros.values()]
    values += [limit(row) for row in rows if limit(row)]
    scale = Scale(values, WIDTH - NAMES - VALUES)
    kind = ", logarithmic" if scale.logarithmic else ""
    out.append(f'<text class="section" x="{left}" y="{top + 18}">{escape(title)}</text>')
    out.append(f'<text class="small" x="{left}" y="{top + 34}">CPU per request{kind}; shorter is better</text>')
    top += SECTION
    for row in rows:
        top = draw_row(out, row, scale, left, top)
    return top + GAP


def plot(tables, caption):
    """The whole picture: sections in two columns."""
    tables = [(title, rows) for title, rows in tables if rows]
    bottoms, out = [MARGIN, MARGIN], []
    for title, rows in tables:
        column = bottoms.index(min(bottoms))
        left = MARGIN + column * (WIDTH + GAP)
        bottoms[column] = draw_section(out, title, rows, left, bottoms[column])
    columns = sum(bottom > MARGIN for bottom in bottoms)
    width = 2 * MARGIN + columns * WIDTH + (columns - 1) * GAP
    height = max(bottoms) + 26 + MARGIN
    for line, text in enumerate([caption, "The line at a bar of ours: what the goals leave to it."]):
        y = height - MARGIN - 16 * (1 - line)
        out.append(f'<text class="small" x="{MARGIN}" y="{y}">{escape(text)}</text>')
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    page = f'<rect class="page" width="{width}" height="{height}"/>'
    description = f"<title>Server CPU per request of grandstand and its peers</title><style>{STYLE}</style>"
    return "\n".join([head, description, page, *out, "</svg>"]) + "\n"
