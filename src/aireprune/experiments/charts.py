"""Line charts as SVG, without a plotting library: a title, axes, one line per series, labels at the line ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape as html_escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 190, 48, 48
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#7f7f7f", "#882255", "#999933",
    "#6633cc", "#dd0000", "#88ccaa",
)  # fmt: skip
LINE_HEIGHT = 15


def escape(text: str) -> str:
    """Text for SVG: marks of XML as entities, and what is not printable, which XML may not hold, in backslashes."""
    return html_escape("".join(one if one.isprintable() else ascii(one)[1:-1] for one in text))


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    y_range: tuple[float, float] | None = None,
) -> str:
    """An SVG document with every series (x values, y values) as a line; labels keep their distance."""
    xs = [x for line in series.values() for x in line[0]]
    ys = [y for line in series.values() for y in line[1]]
    x_low, x_high = min(xs), max(xs)
    y_low, y_high = y_range or (min(ys), max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / ((x_high - x_low) or 1)
        up = (min(max(y, y_low), y_high) - y_low) / ((y_high - y_low) or 1)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for value in _ticks(y_low, y_high):
        _, y = place(x_low, value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in _ticks(x_low, x_high):
        x, _ = place(value, y_low)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(
        f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )
    ends = {name: place(line[0][-1], line[1][-1])[1] for name, line in series.items()}
    labels = _spread(ends)
    for number, (name, (line_x, line_y)) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [place(x, y) for x, y in zip(line_x, line_y, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
        end_x, end_y = points[-1]
        parts.append(
            f'<line x1="{end_x + 4:.1f}" y1="{end_y:.1f}" x2="{end_x + 16:.1f}" y2="{labels[name]:.1f}" '
            f'stroke="{colour}" stroke-width="0.8"/>'
        )
        parts.append(f'<text x="{end_x + 19:.1f}" y="{labels[name] + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ticks(low: float, high: float) -> list[float]:
    """Round values from low to high, about six of them."""
    span = (high - low) or 1
    power = 10.0 ** math.floor(math.log10(span / 6))
    step = next(multiple * power for multiple in (1, 2, 5, 10) if multiple * power >= span / 6)
    first = -(-low // step) * step
    count = int((high - first) / step + 1e-9) + 1
    return [round(first + i * step, 10) for i in range(count)]


def _spread(heights: Mapping[str, float]) -> dict[str, float]:
    """Label heights in the order of the line ends, at least a line apart and inside the chart."""
    order = sorted(heights, key=lambda name: heights[name])
    placed: dict[str, float] = {}
    previous: float = TOP - LINE_HEIGHT
    for name in order:
        previous = placed[name] = max(heights[name], previous + LINE_HEIGHT)
    limit: float = HEIGHT - BOTTOM
    for name in reversed(order):
        limit = placed[name] = min(placed[name], limit)
        limit -= LINE_HEIGHT
    return placed
