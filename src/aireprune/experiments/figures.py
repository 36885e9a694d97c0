"""Pictures of a sweep: the metric against the ratio, and what each layer lost."""

from __future__ import annotations

from pathlib import Path

from aireprune.experiments.charts import line_chart
from aireprune.experiments.summary import Summary
from aireprune.files.writing.atomic import atomic_path


def curves(summary: Summary, title: str) -> str:
    """Test metric against ratio, a line per variant, as SVG."""
    series = {
        name: (
            [100 * point.ratio for point in curve.points],
            [summary.shown(point.test) for point in curve.points],
        )
        for name, curve in summary.variants.items()
    }
    if summary.accuracy:
        return line_chart(title, "states removed (%)", "test accuracy (%)", series)
    full = summary.full.test  # a destroyed language model would flatten all other lines
    return line_chart(title, "states removed (%)", summary.metric, series, (0.95 * full, 2 * full))


def profile(summary: Summary, name: str, title: str) -> str:
    """Share of states removed in every layer against the ratio of the whole model, as SVG."""
    points = summary.variants[name].points
    layers = next(point.layers for point in points if point.layers)
    series = {
        layer.name: (
            [100 * point.ratio for point in points],
            [100 * (1 - point.layers[i].kept / layer.states) if point.layers else 0.0 for point in points],
        )
        for i, layer in enumerate(layers)
    }
    return line_chart(title, "states removed from the whole model (%)", "removed from the layer (%)", series, (0, 100))


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
        temporary.write_text(text)
