"""Every method on the embedded digit classifier, then dense, masked and removed models side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from aireprune import embedded
from aireprune.experiments.pruner import Pruner, load_model
from aireprune.experiments.request import Cell
from aireprune.experiments.timing import take_turns
from aireprune.experiments.variants import Variant
from aireprune.files.writing.atomic import atomic_path
from aireprune.models.saving import save_model
from aireprune.pruning.plan import Plan
from aireprune.tasks.base import Task
from aireprune.tasks.evaluate import evaluate

METHODS = ("aire", "last", "lamp", "global-hinf", "uniform-hinf", "global-magnitude", "uniform-magnitude", "random")
VARIANTS = (*(Variant.of(method) for method in METHODS), Variant.of("aire", "balanced"))
RATIOS = (0.2, 0.4, 0.6, 0.8)
SHOWN_RATIO = 0.4
TIMED_BATCH, TIMED_RUNS = 50, 9
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A model of the last table: accuracy, size in memory and on disk, and time of a forward pass.

    speedup: how many times faster than the dense model, the median over turns.
    """

    model: str
    accuracy: float
    parameters: int
    bytes: int
    milliseconds: float
    speedup: float


@dataclass(frozen=True, kw_only=True)
class Demo:
    """accuracy: of every variant at every ratio. plan: of method aire at SHOWN_RATIO."""

    examples: int
    full_accuracy: float
    ratios: tuple[float, ...]
    accuracy: Mapping[str, tuple[float, ...]]
    plan: Plan
    models: tuple[Compared, ...]
    seconds: float
    folder: str

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "plan": self.plan.to_dict(), "models": [asdict(model) for model in self.models]}


def run_demo(out: Path, report: Report = lambda what, done, total: None, examples: int | None = None) -> Demo:
    """Everything that `aire demo` shows; the models and results.json are in `out`. report(what comes, done, in all).

    examples: judge on the first so many digits alone.
    """
    began = time.perf_counter()
    task, dense = embedded.digits(), load_model(embedded.MODEL)
    task = replace(task, test=task.test.rows(slice(examples)))
    pruner, total = Pruner(dense), 1 + len(VARIANTS) * len(RATIOS)
    report("the full model", 0, total)
    full = evaluate(dense, task, task.test)
    accuracy: dict[str, tuple[float, ...]] = {}
    for number, variant in enumerate(VARIANTS):
        found = []
        for column, ratio in enumerate(RATIOS):
            report(f"{variant.name} at {ratio:.0%}", 1 + number * len(RATIOS) + column, total)
            found.append(evaluate(pruner(Cell(variant, ratio)).model, task, task.test))
        accuracy[variant.name] = tuple(found)
    report("timing", total, total)
    removed = pruner(Cell(Variant.of("aire"), SHOWN_RATIO))
    models = {
        "dense": dense,
        "masked": pruner.apply(removed.plan, mask=True),
        "removed": removed.model,
        "balanced": pruner(Cell(Variant.of("aire", "balanced"), SHOWN_RATIO)).model,
    }
    demo = Demo(
        examples=len(task.test),
        full_accuracy=full,
        ratios=RATIOS,
        accuracy=accuracy,
        plan=removed.plan,
        models=compare(models, task, out),
        seconds=time.perf_counter() - began,
        folder=str(out),
    )
    with atomic_path(out / "results.json") as temporary:
        temporary.write_text(json.dumps(demo.to_dict(), indent=1) + "\n")
    return demo


def compare(models: Mapping[str, nn.Module], task: Task, out: Path) -> tuple[Compared, ...]:
    """Accuracy, size and times of the models, taking turns; each is saved under its name. The first is the dense one."""
    times = _forward_times(models, task)
    dense = times[next(iter(models))]
    found = []
    for name, model in models.items():
        save_model(model, out / name, overwrite=True)
        found.append(
            Compared(
                model=name,
                accuracy=evaluate(model, task, task.test),
                parameters=sum(parameter.numel() for parameter in model.parameters()),
                bytes=(out / name / "model.safetensors").stat().st_size,
                milliseconds=1e3 * float(np.median(times[name])),
                speedup=float(np.median(dense / times[name])),
            )
        )
    return tuple(found)


@torch.inference_mode()
def _forward_times(models: Mapping[str, nn.Module], task: Task) -> dict[str, np.ndarray]:
    x = torch.from_numpy(task.inputs(task.test.x[:TIMED_BATCH]))
    return take_turns({name: partial(model, x) for name, model in models.items()}, TIMED_RUNS)
