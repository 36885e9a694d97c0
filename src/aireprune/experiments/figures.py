"""Pictures of a sweep: the metric against the ratio, and what each layer keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aireprune.drawing import (
    AIRE,
    BOTTOM,
    COLOURS,
    FAINT,
    INK,
    NOTE_SIZE,
    QUIET,
    as_svg,
    colours,
    leave_room,
    name_lines,
    new_axes,
    printable,
    styled,
)
from aireprune.files.writing.atomic import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from aireprune.experiments.summary import Curve, Point, Summary

EMPHASISED = 6  # lines that have a colour and a name; the others are light
LOGARITHMIC = 2.0  # largest over smallest bits per byte, from where on the scale is logarithmic
LINES = 12  # layers that are drawn as lines; more of them become rows of a map
Reported = tuple[
    float, float
]  # of the paper: the ratio that method aire is safe at, in per cent, and its loss in points


def curves(summary: Summary, title: str, reported: Reported | None = None) -> str:
    """Test metric against ratio, a line per variant, as SVG. reported: what the paper has for this task."""
    with styled():
        named = emphasised(summary)
        axes = new_axes(notes=1 + (reported is not None) + (len(named) < len(summary.variants)))
        draw_curves(axes, summary, reported)
        leave_room(axes, {name: name == "aire" for name in named})
        axes.set_title(printable(title), parse_math=False)
        return _finished(axes)


def profile(summary: Summary, name: str, title: str) -> str:
    """Share of states kept in every layer against the ratio of the whole model, as SVG."""
    with styled():
        axes = new_axes()
        layers = draw_profile(axes, summary, name)
        leave_room(axes, dict.fromkeys(layers, False) if len(layers) <= LINES else {})
        axes.set_title(printable(title), parse_math=False)
        return _finished(axes)


def emphasised(summary: Summary) -> list[str]:
    """The variants that are named: those with a colour of their own, aire first, then those with the best mean metric."""
    sign, known = -1 if summary.accuracy else 1, list(COLOURS)
    mean = {name: sign * float(np.mean([p.test for p in curve.points])) for name, curve in summary.variants.items()}
    place = {name: known.index(name) if name in known else len(known) for name in mean}
    return sorted(mean, key=lambda name: (place[name], mean[name]))[:EMPHASISED]


def draw_curves(axes: Axes, summary: Summary, reported: Reported | None = None) -> None:
    """Every variant's metric with 95 % intervals; safe ratios are ringed. reported: what the paper has for this task."""
    named = emphasised(summary)
    inks = colours(named)
    for name, curve in summary.variants.items():
        if name not in named:
            axes.plot(*_line(summary, curve), color=FAINT, linewidth=1.1, zorder=1)
    for number, name in reversed(list(enumerate(named))):
        _draw_curve(axes, summary, name, inks[name], shift=0.3 * (number - 3))
    axes.set_xlabel("states removed (%)")
    axes.set_ylabel("test accuracy (%)" if summary.accuracy else f"{summary.metric} (test)", parse_math=False)
    axes.set_xlim(-1, 100 * max(summary.ratios) + 1)
    _fit(axes, summary)
    _draw_floor(axes, summary)
    notes = ["○ safe ratio, chosen on validation data; band and bars: 95 % intervals"]
    if reported is not None:
        axes.axvline(reported[0], color=QUIET, linestyle=":", linewidth=1.2, zorder=1)
        notes.append(
            f"dotted: safe ratio of aire on the paper's larger model, {reported[0]:g} % ({reported[1]:.1f} points lost)"
        )
    light = [printable(name) for name in summary.variants if name not in named]
    name_lines(axes, {name: _end(summary, summary.variants[name]) for name in named}, inks, bold="aire")
    _note(axes, [*notes, *(["light: " + ", ".join(light)] if light else [])])


def draw_profile(axes: Axes, summary: Summary, name: str) -> list[str]:
    """Share of states that each layer keeps: a line per layer, or a row of a map where they are many; the layers' names."""
    points = summary.variants[name].points
    layers = next(point.layers for point in points if point.layers)
    shares = np.array(
        [
            [100 * point.layers[i].kept / max(layer.states, 1) if point.layers else 100.0 for point in points]
            for i, layer in enumerate(layers)
        ]
    )
    names = [layer.name for layer in layers]
    draw_shares(axes, [100 * point.ratio for point in points], shares, names)
    return names


def draw_shares(axes: Axes, ratios: Sequence[float], shares: np.ndarray, names: Sequence[str]) -> None:
    """shares: per cent kept of each layer at each ratio in per cent, (layers, ratios)."""
    axes.set_xlabel("states removed from the whole model (%)")
    if len(names) > LINES:
        image = axes.pcolormesh(np.asarray(ratios), np.arange(len(names)), shares, cmap="Oranges", vmin=0, vmax=100)
        axes.set_ylabel("layer, from the input on")
        axes.invert_yaxis()
        axes.grid(False)
        axes.get_figure(root=True).colorbar(image, ax=axes, label="kept (%)")  # type: ignore[union-attr]
        return
    axes.set_ylim(-2, 102)
    axes.set_xlim(0, max(ratios) + 1)
    axes.set_ylabel("kept of the layer (%)")
    axes.plot([0, 100], [100, 0], ":", color=QUIET, linewidth=1)
    inks = dict(zip(names, _shades(len(names)), strict=True))
    for row, layer in zip(shares, names, strict=True):
        axes.plot(ratios, row, color=inks[layer], linewidth=1.8, marker="o", markersize=3.2)
    name_lines(axes, {layer: (ratios[-1], row[-1]) for row, layer in zip(shares, names, strict=True)}, inks)


def draw_sweep(summary: Summary, out: Path) -> None:
    """curves.svg, and profile-VARIANT.svg of every variant."""
    pictures = {"curves": curves(summary, f"{summary.task}: pruning without retraining")}
    for name, curve in summary.variants.items():
        if any(point.layers for point in curve.points):
            pictures[f"profile-{name.replace(' ', '-')}"] = profile(summary, name, f"{summary.task}, {name}")
    for name, text in pictures.items():
        save_picture(out / f"{name}.svg", text)


def save_picture(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _draw_curve(axes: Axes, summary: Summary, name: str, ink: str, shift: float) -> None:
    """One variant that is named: aire in bold, its intervals as a band; the others with bars, `shift` to the side."""
    curve, bold = summary.variants[name], name == "aire"
    across, up = _line(summary, curve)
    low, high = (np.array([_finite(summary, p, p.interval[side]) for p in curve.points]) for side in (0, 1))
    order = 4 if bold else 3
    if bold:
        axes.fill_between(across, low, high, color=ink, alpha=0.14, linewidth=0, zorder=2)
    else:
        axes.vlines(np.array(across) + shift, low, high, color=ink, alpha=0.3, linewidth=1, zorder=2)
    axes.plot(across, up, color=ink, linewidth=2.8 if bold else 1.5, zorder=order)
    axes.plot(
        [100 * curve.safe.ratio],
        [summary.shown(curve.safe.test)],
        "o",
        color=ink,
        markerfacecolor="white",
        markersize=8 if bold else 6,
        markeredgewidth=2 if bold else 1.4,
        zorder=order + 2,
    )


def _fit(axes: Axes, summary: Summary) -> None:
    """A vertical axis that fits the numbers; logarithmic where a destroyed language model would flatten all others."""
    values = [
        _finite(summary, p, v) for c in summary.variants.values() for p in c.points for v in (p.test, *p.interval)
    ]
    low, high = min(values), max(values)
    if not summary.accuracy and low > 0 and high > LOGARITHMIC * low:
        _logarithmic(axes, low / 1.05, high * 1.05)
        return
    room = 0.06 * (high - low) or 1.0
    axes.set_ylim(low - room, high + room)


def _draw_floor(axes: Axes, summary: Summary) -> None:
    """What a model reaches that says the same to everything, if it is near the numbers."""
    low, high = axes.get_ylim()
    if summary.chance is None or not low - (high - low) / 3 <= summary.shown(summary.chance) <= high:
        return
    floor = summary.shown(summary.chance)
    axes.set_ylim(min(low, floor - 0.04 * (high - floor)), high)
    axes.axhline(floor, color=QUIET, linestyle=(0, (4, 3)), linewidth=1, zorder=1)
    what = "always one answer" if summary.accuracy else "every byte alike"
    axes.annotate(what, (0, floor), xytext=(4, 3), textcoords="offset points", color=QUIET, fontsize=8.5)


def _note(axes: Axes, lines: Sequence[str]) -> None:
    """Small print under the axes."""
    axes.annotate(
        "\n".join(lines),
        (0, 0),
        xytext=(0, -BOTTOM),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        color=QUIET,
        fontsize=NOTE_SIZE,
        parse_math=False,
    )


def _line(summary: Summary, curve: Curve) -> tuple[list[float], list[float]]:
    return [100 * point.ratio for point in curve.points], [summary.shown(point.test) for point in curve.points]


def _end(summary: Summary, curve: Curve) -> tuple[float, float]:
    across, up = _line(summary, curve)
    return across[-1], up[-1]


def _finite(summary: Summary, point: Point, bound: float) -> float:
    """A bound as it is shown; that of a single example is infinite, and the metric stands in for it."""
    return summary.shown(bound if math.isfinite(bound) else point.test)


def _logarithmic(axes: Axes, low: float, high: float) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("log")
    axes.set_ylim(low, high)
    steps = [digit * 10.0**power for power in range(-3, 6) for digit in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)]
    axes.yaxis.set_major_locator(FixedLocator([step for step in steps if low <= step <= high]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _shades(count: int) -> list[str]:
    """Shades of one colour, from the first layer (light) to the last (dark)."""
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    scale = LinearSegmentedColormap.from_list("depth", ["#f2b48f", AIRE, "#5c1a00", INK])
    return [to_hex(scale(0.85 * i / max(count - 1, 1))) for i in range(count)]


def _finished(axes: Axes) -> str:
    figure = axes.get_figure(root=True)
    assert figure is not None
    return as_svg(figure)
