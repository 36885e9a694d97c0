"""Sweeps: every variant of pruning at every ratio on one model and task, one line of JSON per cell as it is done.

A folder holds sweep.json (what is swept), cells.jsonl (results, appended one by one) and summary.json. A sweep that was
interrupted goes on where it stopped, and its cells are the same as those of one that was not.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from aireprune.calibration.inputs import COUNT, Inputs, read_inputs, task_inputs
from aireprune.calibration.pipeline import measure, prune_calibrated
from aireprune.errors import AireError
from aireprune.experiments.statistics import interval, paired_p_value
from aireprune.files.atomic import atomic_path
from aireprune.method.methods import REDUCTIONS
from aireprune.method.methods import method as find_method
from aireprune.pruning.plan import Plan
from aireprune.pruning.source import open_source
from aireprune.tasks.base import Task
from aireprune.tasks.evaluate import per_example

FULL = "full"
DROP = 1.0


@dataclass(frozen=True)
class Variant:
    """A way to prune: method, reduction, calibrated or not, and further options of `aireprune.prune`."""

    name: str
    method: str = "aire"
    reduce: str = "truncate"
    calibrated: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, method: str, reduce: str = "truncate", calibrated: bool = False, **options: Any) -> Variant:
        """Named after what it differs in: aire, aire+refit, balanced, balanced+calibrated, aire epsilon=1e-06."""
        name = {"truncate": method, "balanced": "balanced"}.get(reduce, f"{method}+{reduce}")
        name += "+calibrated" if calibrated else ""
        name = " ".join([name, *(f"{key}={value:g}" for key, value in options.items())])
        return cls(name, method, reduce, calibrated, options)


@dataclass(frozen=True)
class Cell:
    """One model to prune and judge."""

    variant: Variant
    ratio: float
    seed: int = 0

    @property
    def key(self) -> tuple[str, float, int]:
        return self.variant.name, self.ratio, self.seed


@dataclass(frozen=True)
class Settings:
    """What a sweep is made of, besides the model and the task. Ratio 0, the full model, is always part of it."""

    variants: tuple[Variant, ...]
    ratios: tuple[float, ...]
    seeds: int = 3  # of method random
    examples: int = 1000  # the first so many of the test split; 0: all
    validation: int = 1000  # and of the validation split
    calibrate: str | None = None  # inputs of calibrated variants; None: the task's training split
    calibrate_count: int = COUNT
    drop: float = DROP  # what a safe ratio may cost: points of accuracy, or per cent of bits per byte

    def __post_init__(self) -> None:
        for ratio in self.ratios:
            if not 0 <= ratio <= 1:
                raise AireError(f"A ratio is a share of the states, 0 to 1; got {ratio:g}.")
        object.__setattr__(self, "ratios", tuple(sorted({0.0, *self.ratios})))
        names = [variant.name for variant in self.variants]
        if len(set(names)) != len(names):
            raise AireError(f"A variant is listed twice: {', '.join(names)}.")

    def cells(self) -> Iterator[Cell]:
        """In the order in which they are done: ratio by ratio, so that an early look sees every variant."""
        for ratio in self.ratios:
            for variant in self.variants if ratio else ():
                for seed in range(self.seeds if variant.method == "random" else 1):
                    yield Cell(variant, ratio, seed)


def parse_ratios(text: str) -> tuple[float, ...]:
    """0:1:0.1 (from, to, step; both ends included) or 0.2,0.5,0.8."""
    try:
        if ":" not in text:
            return tuple(sorted({round(float(part), 10) for part in text.split(",")}))
        first, last, step = (float(part) for part in text.split(":"))
        if step <= 0:
            raise ValueError
        return tuple(round(first + i * step, 10) for i in range(int((last - first) / step + 1e-9) + 1))
    except ValueError:
        raise AireError(f"The ratios {text!r} are not FROM:TO:STEP or a list like 0.2,0.5,0.8.") from None


def make_variants(methods: Sequence[str], reductions: Sequence[str], calibrated: bool) -> tuple[Variant, ...]:
    """Every method truncated, and the other reductions wherever they can be combined with it."""
    for reduction in reductions:
        if reduction not in REDUCTIONS:
            raise AireError(f"There is no reduction {reduction!r}. Reductions: {', '.join(REDUCTIONS)}.")
    found = []
    for method in methods:
        measured = find_method(method).measured
        for reduction in reductions:
            if reduction == "balanced" and method != "aire":
                continue
            if not measured:
                found.append(Variant.of(method, reduction))
            if measured or (calibrated and method == "aire"):
                found.append(Variant.of(method, reduction, True))
    if not found:
        raise AireError(f"Balanced truncation goes with method aire; none of {', '.join(methods)} is left to sweep.")
    return tuple(found)


class Pruner:
    """Prunes one model again and again; what calibration measures on the full model is measured once."""

    def __init__(self, model: nn.Module, task: Task, settings: Settings):
        self.model, self.task, self.settings = model, task, settings
        self.inputs: Inputs | None = None
        self.known: dict[tuple[str, str], dict[str, Any]] = {}

    def __call__(self, cell: Cell) -> nn.Module:
        from aireprune.api import prune

        variant = cell.variant
        options: dict[str, Any] = {"method": variant.method, "reduce": variant.reduce, "ratio": cell.ratio}
        options |= {"seed": cell.seed, **variant.options}
        if not variant.calibrated:
            return prune(self.model, **options)
        if self.inputs is None:
            source, count = self.settings.calibrate, self.settings.calibrate_count
            self.inputs = task_inputs(self.task, count) if source is None else read_inputs(source, count)
        kind = (variant.method, variant.reduce)
        if kind not in self.known:
            self.known[kind] = measure(self.model, self.inputs, *kind)
        return prune_calibrated(self.model, self.inputs, known=self.known[kind], **options)


def run_sweep(
    model: nn.Module,
    task: Task,
    settings: Settings,
    folder: Path,
    report: Callable[[dict[str, Any], int, int], None] = lambda row, done, total: None,
) -> dict[str, Any]:
    """Do the cells that are not yet done, and return the summary. report(row, cells done, cells in all)."""
    folder.mkdir(parents=True, exist_ok=True)
    _agree(folder / "sweep.json", description(model, task, settings))
    path = folder / "cells.jsonl"
    rows = read_cells(path)
    todo = list(settings.cells())
    if (FULL, 0.0, 0) not in rows:
        rows[FULL, 0.0, 0] = _append(path, judge(model, task, settings, Cell(Variant(FULL), 0.0), None))
    pruner = Pruner(model, task, settings)
    for number, cell in enumerate(todo):
        if cell.key not in rows:
            pruned = pruner(cell)
            plan: Any = pruned.plan
            rows[cell.key] = _append(path, judge(pruned, task, settings, cell, plan))
        report(rows[cell.key], number + 1, len(todo))
    summary = summarise(task, settings, rows)
    with atomic_path(folder / "summary.json") as temporary:
        temporary.write_text(json.dumps(summary, indent=1) + "\n")
    return summary


def description(model: nn.Module, task: Task, settings: Settings) -> dict[str, Any]:
    """Everything the results depend on, as JSON has it."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return {"task": task.name, "metric": task.metric, "fingerprint": open_source(model).fingerprint(), **values}


def _agree(path: Path, wanted: dict[str, Any]) -> None:
    """Write what is swept, or check that the folder is of the same sweep; cells may be added, nothing else may differ."""
    free = ("variants", "ratios", "drop")
    if path.is_file():
        old = json.loads(path.read_text())
        for key, value in wanted.items():
            if key not in free and old.get(key) != value:
                raise AireError(
                    f"{path.parent} holds another sweep: its {key} is {old.get(key)!r}, not {value!r}. Choose another "
                    "folder or delete it."
                )
        known = {variant["name"]: variant for variant in old["variants"]}
        for variant in wanted["variants"]:
            if known.get(variant["name"], variant) != variant:
                raise AireError(f"{path.parent} holds another sweep: its {variant['name']} has other options.")
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(wanted, indent=1) + "\n")


def judge(model: nn.Module, task: Task, settings: Settings, cell: Cell, plan: Plan | None) -> dict[str, Any]:
    """The row of a cell: what stayed, and how the model does on validation and test examples."""
    validation = per_example(model, task, task.validation.rows(slice(0, settings.validation or None)))
    test = per_example(model, task, task.test.rows(slice(0, settings.examples or None)))
    return {
        "variant": cell.variant.name,
        "ratio": cell.ratio,
        "seed": cell.seed,
        "removed": 0.0 if plan is None else plan.achieved_ratio,
        "layers": [] if plan is None else [[layer.name, len(layer.kept), layer.states] for layer in plan.layers],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "validation": float(validation.mean()),
        "test": float(test.mean()),
        "answers": pack(test),
    }


def _append(path: Path, row: dict[str, Any]) -> dict[str, Any]:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return row


def read_cells(path: Path) -> dict[tuple[str, float, int], dict[str, Any]]:
    """Rows by cell. A last line that was cut off in the middle is removed from the file and done again."""
    if not path.is_file():
        return {}
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        with atomic_path(path) as temporary:
            temporary.write_text(whole)
    try:
        rows = [json.loads(line) for line in whole.splitlines()]
        return {(row["variant"], row["ratio"], row["seed"]): row for row in rows}
    except (ValueError, KeyError, TypeError):
        raise AireError(f"{path} holds a line that is not a cell of a sweep; delete the line or the file.") from None


def pack(values: np.ndarray) -> str | list[float]:
    """Right and wrong answers as base64 of their bits; other values rounded."""
    if np.isin(values, (0.0, 1.0)).all():
        return base64.b64encode(np.packbits(values.astype(bool)).tobytes()).decode()
    return [round(float(value), 5) for value in values]


def unpack(answers: str | list[float], count: int) -> np.ndarray:
    if isinstance(answers, str):
        bits = np.unpackbits(np.frombuffer(base64.b64decode(answers), np.uint8), count=count)
        return bits.astype(float)
    return np.asarray(answers, float)


def summarise(task: Task, settings: Settings, rows: Mapping[tuple[str, float, int], dict[str, Any]]) -> dict[str, Any]:
    """Curves, intervals and safe ratios of every variant. The ratio is chosen on validation, the test only reported."""
    count = min(len(task.test), settings.examples or len(task.test))
    full = rows[FULL, 0.0, 0]
    answers = unpack(full["answers"], count)
    variants = {}
    for variant in settings.variants:
        seeds = range(settings.seeds if variant.method == "random" else 1)
        points = []
        for ratio in settings.ratios:
            found = [rows[variant.name, ratio, seed] for seed in seeds] if ratio else [full]
            points.append(_point(ratio, found, answers, count))
        variants[variant.name] = {"points": points, "safe": _safe(task, settings, points)}
    return {
        "task": task.name,
        "metric": task.metric,
        "examples": count,
        "drop": settings.drop,
        "full": {
            "validation": full["validation"],
            "test": full["test"],
            "interval": list(interval(answers)),
            "parameters": full["parameters"],
        },
        "variants": variants,
    }


def _point(ratio: float, found: list[dict[str, Any]], full: np.ndarray, count: int) -> dict[str, Any]:
    """One ratio of a variant. Several seeds: everything is about each example's mean over them."""
    tests = [row["test"] for row in found]
    answers = np.mean([unpack(row["answers"], count) for row in found], axis=0)
    return {
        "ratio": ratio,
        "removed": found[0]["removed"],
        "validation": float(np.mean([row["validation"] for row in found])),
        "test": float(np.mean(tests)),
        "sd": float(np.std(tests, ddof=1)) if len(tests) > 1 else None,
        "interval": list(interval(answers)),
        "p": paired_p_value(answers, full),
        "parameters": found[0]["parameters"],
        "layers": found[0]["layers"],
    }


def _safe(task: Task, settings: Settings, points: list[dict[str, Any]]) -> dict[str, Any]:
    """The last point before validation first falls by more than the allowed drop."""
    best = points[0]
    for point in points:
        if task.drop(points[0]["validation"], point["validation"]) > settings.drop / 100 + 1e-12:
            break
        best = point
    return {key: best[key] for key in ("ratio", "removed", "validation", "test", "interval", "p", "parameters")}
