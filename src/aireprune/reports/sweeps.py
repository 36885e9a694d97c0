"""A sweep as a page shows it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aireprune.experiments.figures import emphasised
from aireprune.experiments.paper.paper import safe_in_paper
from aireprune.experiments.stored import number, read_object, text, understood
from aireprune.experiments.summary import Full, Point, Summary
from aireprune.reports.document import SweepCurve, SweepPoint, SweepView


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The files of a sweep's folder. swept: sweep.json. speeds: of variants at their safe ratios, where they were timed."""

    folder: Path
    summary: Summary
    swept: Mapping[str, Any]
    speeds: Mapping[str, float]

    @property
    def source(self) -> Path | None:
        """The checkpoint that was swept, if it is known and still there."""
        named = self.swept.get("source")
        return Path(named) if isinstance(named, str) and Path(named).exists() else None


def read_sweep(folder: Path) -> Sweep:
    summary = Summary.load(folder / "summary.json")
    with understood(folder / "sweep.json", "does not say what was swept; run the sweep again"):
        swept = read_object(folder / "sweep.json")
        for variant in swept["variants"]:
            _ = text(variant["method"]), text(variant["reduce"]), variant["calibrated"]
        _ = [number(ratio) for ratio in swept["ratios"]], text(swept["task"]), swept["seeds"], swept["examples"]
        _ = number(swept["drop"])
    return Sweep(folder=folder, summary=summary, swept=swept, speeds=_speeds(folder / "speed.json"))


def view_sweep(sweep: Sweep, family: str | None) -> SweepView:
    """family: of the model, which says what the paper has for it."""
    summary = sweep.summary
    named = emphasised(summary)
    layers = next((p.layers for c in summary.variants.values() for p in c.points if p.layers), ())
    base = summary.task.removesuffix("-mini")
    return SweepView(
        task=summary.task,
        metric=summary.metric,
        accuracy=summary.accuracy,
        examples=summary.examples,
        drop=summary.drop,
        chance=None if summary.chance is None else summary.shown(summary.chance),
        full=_full(summary, summary.full),
        layers=tuple(layer.name for layer in layers),
        curves=tuple(
            SweepCurve(
                name=name,
                emphasised=name in named,
                safe=curve.safe_ratio,
                points=tuple(_point(summary, point) for point in curve.points),
            )
            for name, curve in sorted(summary.variants.items(), key=lambda item: _place(named, item[0]))
        ),
        reported=None if family is None else safe_in_paper(family, base),
    )


def _place(named: list[str], name: str) -> int:
    return named.index(name) if name in named else len(named)


def _point(summary: Summary, point: Point) -> SweepPoint:
    low, high = (summary.shown(b if math.isfinite(b) else point.test) for b in point.interval)
    return SweepPoint(
        ratio=point.ratio,
        removed=point.removed,
        test=summary.shown(point.test),
        low=low,
        high=high,
        sd=None if point.sd is None else summary.shown(point.sd),
        p=point.p,
        parameters=point.parameters,
        kept=tuple(layer.kept / max(layer.states, 1) for layer in point.layers),
    )


def _full(summary: Summary, full: Full) -> SweepPoint:
    low, high = (summary.shown(b if math.isfinite(b) else full.test) for b in full.interval)
    return SweepPoint(
        ratio=0.0,
        removed=0.0,
        test=summary.shown(full.test),
        low=low,
        high=high,
        sd=None,
        p=1.0,
        parameters=full.parameters,
        kept=(),
    )


def _speeds(path: Path) -> dict[str, float]:
    """Speedups by variant, of speed.json as `aire reproduce` leaves it."""
    if not path.is_file():
        return {}
    with understood(path, "does not hold measured speeds; delete it to have them measured again"):
        found = {name: entry for name, entry in read_object(path).items() if isinstance(entry, dict)}
        return {name: number(entry["speedup"]) for name, entry in found.items()}
