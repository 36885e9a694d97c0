"""What a sweep found: curves, intervals and the ratio that every variant may be trusted with. On disk: summary.json."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from aireprune.drawing import printable, shown_axes, styled
from aireprune.experiments.cells import LayerCount, Result, Results, layer_counts
from aireprune.experiments.figures import draw_curves
from aireprune.experiments.request import FULL, SweepRequest
from aireprune.experiments.statistics import interval, paired_p_value
from aireprune.experiments.stored import bounds, number, read_object, text, understood, whole
from aireprune.extras import data_frame
from aireprune.files.writing.atomic import atomic_path
from aireprune.tasks.base import Task

NAMED = 4  # variants whose safe ratios stand in the one-line description
OF_SAFE = ("ratio", "removed", "validation", "test", "interval", "p", "parameters")  # what is repeated of its point


@dataclass(frozen=True, kw_only=True)
class Full:
    """The full model. interval: 95 %, of the test metric."""

    validation: float
    test: float
    interval: tuple[float, float]
    parameters: int

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "interval": list(self.interval)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Full:
        return cls(
            validation=number(values["validation"]),
            test=number(values["test"]),
            interval=bounds(values["interval"]),
            parameters=whole(values["parameters"]),
        )


@dataclass(frozen=True, kw_only=True)
class Point:
    """One ratio of a variant. Several seeds: metrics are means over them, sd the deviation of the test metric.

    interval: 95 %, of the test metric. p: of no difference to the full model on the same test examples.
    """

    ratio: float
    removed: float
    validation: float
    test: float
    sd: float | None
    interval: tuple[float, float]
    p: float
    parameters: int
    layers: tuple[LayerCount, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "interval": list(self.interval), "layers": [list(layer) for layer in self.layers]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Point:
        names = ("ratio", "removed", "validation", "test", "p")
        return cls(
            **{name: number(values[name]) for name in names},
            sd=None if values["sd"] is None else number(values["sd"]),
            interval=bounds(values["interval"]),
            parameters=whole(values["parameters"]),
            layers=layer_counts(values["layers"]),
        )


@dataclass(frozen=True)
class Curve:
    """A variant at every ratio. safe_ratio: the last before validation first falls by more than is allowed."""

    points: tuple[Point, ...]
    safe_ratio: float

    def at(self, ratio: float) -> Point:
        return next(point for point in self.points if point.ratio == ratio)

    @property
    def safe(self) -> Point:
        return self.at(self.safe_ratio)

    def to_dict(self) -> dict[str, Any]:
        safe = self.safe.to_dict()
        return {"points": [point.to_dict() for point in self.points], "safe": {key: safe[key] for key in OF_SAFE}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Curve:
        curve = cls(tuple(Point.from_dict(point) for point in values["points"]), number(values["safe"]["ratio"]))
        if curve.safe_ratio not in [point.ratio for point in curve.points]:
            raise ValueError(f"the safe ratio {curve.safe_ratio} is none of the ratios")
        return curve


@dataclass(frozen=True, kw_only=True)
class Summary:
    """examples: test examples that were used. drop: what a safe ratio may cost on validation (points, or % of bits).

    chance: the metric of a model that says the same to everything; None in summaries of older versions.
    """

    task: str
    metric: str
    examples: int
    drop: float
    full: Full
    variants: Mapping[str, Curve]
    chance: float | None = None

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(point.ratio for point in next(iter(self.variants.values())).points)

    @property
    def accuracy(self) -> bool:
        """Judged by accuracy; otherwise by bits per byte or token."""
        return self.metric == "accuracy"

    def shown(self, value: float) -> float:
        """The metric as people read it: per cent of accuracy, or bits."""
        return 100 * value if self.accuracy else value

    def text(self, value: float) -> str:
        """The same with the digits that mean something."""
        return f"{self.shown(value):.{1 if self.accuracy else 3}f}"

    def saved(self, point: Point) -> float:
        """Share of the full model's parameters that are gone."""
        return 1 - point.parameters / self.full.parameters

    def to_dict(self) -> dict[str, Any]:
        variants = {name: curve.to_dict() for name, curve in self.variants.items()}
        return {**vars(self), "full": self.full.to_dict(), "variants": variants}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Summary:
        variants = {name: Curve.from_dict(curve) for name, curve in values["variants"].items()}
        if not variants:
            raise ValueError("no variants")
        return cls(
            task=text(values["task"]),
            metric=text(values["metric"]),
            examples=whole(values["examples"]),
            drop=number(values["drop"]),
            full=Full.from_dict(values["full"]),
            variants=variants,
            chance=None if values.get("chance") is None else number(values["chance"]),
        )

    def __repr__(self) -> str:
        safe = ", ".join(f"{name} {curve.safe_ratio:.0%}" for name, curve in list(self.variants.items())[:NAMED])
        more = ", …" if len(self.variants) > NAMED else ""
        full = f"{self.text(self.full.test)} {'%' if self.accuracy else self.metric}"
        return f"Summary({self.task}: full model {full} on {self.examples} examples; safe ratios: {safe}{more})"

    def _repr_html_(self) -> str:
        """In notebooks: the metric of every variant at every ratio, safe ratios in bold."""
        heads = "".join(f"<th>{ratio:.0%}</th>" for ratio in self.ratios)
        lines = [f"<p><code>{escape(repr(self))}</code></p><table><tr><th>variant</th>{heads}</tr>"]
        for name, curve in self.variants.items():
            cells = [(self.text(point.test), point.ratio == curve.safe_ratio) for point in curve.points]
            row = "".join(f"<td><b>{text}</b></td>" if safe else f"<td>{text}</td>" for text, safe in cells)
            lines.append(f"<tr><td style='text-align:left'>{escape(printable(name))}</td>{row}</tr>")
        return "\n".join([*lines, "</table>"])

    def to_pandas(self) -> Any:
        """A DataFrame with a row per variant and ratio."""
        rows = []
        for name, curve in self.variants.items():
            for point in curve.points:
                low, high = point.interval
                values = {key: value for key, value in vars(point).items() if key not in ("interval", "layers")}
                safe = point.ratio <= curve.safe_ratio
                rows.append({"variant": name, **values, "low": low, "high": high, "safe": safe})
        return data_frame(rows)

    def plot(self, axes: Any = None) -> Any:
        """The metric against the ratio, on matplotlib axes (new ones if none are given), which are returned."""
        with styled():
            axes = shown_axes() if axes is None else axes
            draw_curves(axes, self)
        return axes

    def save(self, path: Path) -> None:
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(self.to_dict(), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Summary:
        with understood(path, "is not the summary of a sweep; delete it, and run the sweep again"):
            return cls.from_dict(read_object(path))


def summarise(task: Task, request: SweepRequest, results: Results) -> Summary:
    """Curves, intervals and safe ratios of every variant. The ratio is chosen on validation, the test only reported."""
    count = min(len(task.test), request.examples or len(task.test))
    full = results[FULL.key]
    answers = full.per_example(count)
    curves = {}
    for variant in request.variants:
        points = []
        for ratio in request.ratios:
            found = [results[cell.key] for cell in request.seeded(variant, ratio)] if ratio else [full]
            points.append(_point(ratio, found, answers))
        curves[variant.name] = Curve(tuple(points), _safe_ratio(task, request.drop, points))
    return Summary(
        task=task.name,
        metric=task.metric,
        examples=count,
        drop=request.drop,
        full=Full(validation=full.validation, test=full.test, interval=interval(answers), parameters=full.parameters),
        variants=curves,
        chance=chance(task, count),
    )


def chance(task: Task, examples: int) -> float:
    """The best metric without looking at inputs: one class for all test examples, or every token alike, in bits."""
    if task.language:
        return math.log2(max(task.classes, 2))
    return float(np.unique(task.test.y[:examples], return_counts=True)[1].max() / examples)


def _point(ratio: float, found: Sequence[Result], full: np.ndarray) -> Point:
    """Of several seeds, intervals and p values are about each example's mean over them."""
    tests = [result.test for result in found]
    answers = np.mean([result.per_example(len(full)) for result in found], axis=0)
    return Point(
        ratio=ratio,
        removed=found[0].removed,
        validation=float(np.mean([result.validation for result in found])),
        test=float(np.mean(tests)),
        sd=float(np.std(tests, ddof=1)) if len(tests) > 1 else None,
        interval=interval(answers),
        p=paired_p_value(answers, full),
        parameters=found[0].parameters,
        layers=found[0].layers,
    )


def _safe_ratio(task: Task, drop: float, points: Sequence[Point]) -> float:
    best = points[0].ratio
    for point in points:
        if task.drop(points[0].validation, point.validation) > drop / 100 + 1e-12:
            break
        best = point.ratio
    return best
