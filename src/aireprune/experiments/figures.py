"""Pictures of a sweep: the metric against the ratio, and what each layer lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from aireprune.experiments.charts import line_chart
from aireprune.files.atomic import atomic_path


def value_of(summary: Mapping[str, Any], value: float) -> float:
    """As it is shown: per cent of accuracy, or bits per byte."""
    return 100 * value if summary["metric"] == "accuracy" else value


def curves(summary: Mapping[str, Any], title: str, names: Iterable[str] | None = None) -> str:
    """Test metric against ratio, a line per variant, as SVG."""
    series = {
        name: (
            [100 * point["ratio"] for point in summary["variants"][name]["points"]],
            [value_of(summary, point["test"]) for point in summary["variants"][name]["points"]],
        )
        for name in names or summary["variants"]
    }
    if summary["metric"] == "accuracy":
        return line_chart(title, "states removed (%)", "test accuracy (%)", series)
    full = summary["full"]["test"]  # a destroyed language model would flatten all other lines
    return line_chart(title, "states removed (%)", "bits per byte", series, (0.95 * full, 2 * full))


def profile(summary: Mapping[str, Any], name: str, title: str) -> str:
    """Share of states removed in every layer against the ratio of the whole model, as SVG."""
    points = summary["variants"][name]["points"]
    layers = next(point["layers"] for point in points if point["layers"])
    series = {
        layer: (
            [100 * point["ratio"] for point in points],
            [100 * (1 - point["layers"][i][1] / point["layers"][i][2]) if point["layers"] else 0.0 for point in points],
        )
        for i, (layer, _, _) in enumerate(layers)
    }
    return line_chart(title, "states removed from the whole model (%)", "removed from the layer (%)", series, (0, 100))


def draw_sweep(summary: Mapping[str, Any], out: Path) -> None:
    """curves.svg, and profile-VARIANT.svg of every variant."""
    pictures = {"curves": curves(summary, f"{summary['task']}: pruning without retraining")}
    for name, variant in summary["variants"].items():
        if any(point["layers"] for point in variant["points"]):
            pictures[f"profile-{name.replace(' ', '-')}"] = profile(summary, name, f"{summary['task']}, {name}")
    for name, text in pictures.items():
        with atomic_path(out / f"{name}.svg") as temporary:
            temporary.write_text(text)
