"""Tables 3 and 5: forward times of full and pruned models at their safe ratios. On disk: speed.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aireprune.experiments.paper.models import sweep_request
from aireprune.experiments.paper.reproduction import TABLE_FAMILIES, Reproduction
from aireprune.experiments.paper.run import Report
from aireprune.experiments.pruner import Pruner, load_model, sweep_inputs
from aireprune.experiments.request import Cell, SweepRequest
from aireprune.experiments.stored import number, read_object, understood, whole
from aireprune.experiments.summary import Summary
from aireprune.experiments.timing import speedup, take_turns
from aireprune.files.writing.atomic import atomic_path
from aireprune.models.evaluation import evaluation_mode
from aireprune.tasks import load_task
from aireprune.tasks.base import Task
from aireprune.tasks.evaluate import forward
from aireprune.training.lock import locked

TIMED_BATCH, TIMED_ROUNDS = 8, 9


@dataclass(frozen=True)
class Speedup:
    """How many times faster than the full model: the median over rounds, and the quartiles."""

    speedup: float
    quartiles: tuple[float, float]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Speedup:
        low, high = values["quartiles"]
        return cls(number(values["speedup"]), (number(low), number(high)))


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """Speedups of a model's variants, measured with so many sequences of so many steps on so many threads."""

    batch: int
    length: int
    threads: int
    variants: Mapping[str, Speedup]

    def to_dict(self) -> dict[str, Any]:
        """As speed.json has it: the variants stand beside the numbers."""
        numbers = {"batch": self.batch, "length": self.length, "threads": self.threads}
        return {**numbers, **{name: asdict(found) for name, found in self.variants.items()}}

    @classmethod
    def load(cls, path: Path) -> Speeds:
        with understood(path, "does not hold measured speeds; delete it to have them measured again"):
            values = read_object(path)
            numbers = {key: whole(values.pop(key)) for key in ("batch", "length", "threads")}
            return cls(**numbers, variants={name: Speedup.from_dict(entry) for name, entry in values.items()})


def time_models(wanted: Reproduction, report: Report) -> None:
    """Time what Tables 3 and 5 compare, once, after everything else: NAME/speed.json."""
    families = {TABLE_FAMILIES[item][0] for item in ("table3", "table5") if item in wanted.items}
    todo = [model for model in wanted.models if model.family in families]
    todo = [model for model in todo if not (wanted.sweep_folder(model) / "speed.json").is_file()]
    for done, zoo_model in enumerate(todo):
        report(f"timing {zoo_model.name}", done, len(todo))
        model, task = load_model(wanted.path(zoo_model)), load_task(zoo_model.task(wanted.recipe))
        folder = wanted.sweep_folder(zoo_model)
        with locked(folder, "sweep"):
            found = measure(model, task, sweep_request(zoo_model, wanted.recipe), wanted.summary(zoo_model))
            with atomic_path(folder / "speed.json") as temporary:
                temporary.write_text(json.dumps(found.to_dict(), indent=1) + "\n")


@torch.inference_mode()
def measure(model: nn.Module, task: Task, request: SweepRequest, summary: Summary) -> Speeds:
    """Forward time of the full model over those of AIRE as in the paper and of the last variant, taking turns.

    Each is pruned at its safe ratio; one that may not be pruned at all is left out.
    """
    pruner, pruned = Pruner(model, lambda: sweep_inputs(task, request)), {}
    for variant in request.variants:
        safe = summary.variants[variant.name].safe_ratio
        if variant.name in ("aire", request.variants[-1].name) and safe:
            pruned[variant.name] = pruner(Cell(variant, safe)).model.eval()
    batch = task.test.rows(slice(0, TIMED_BATCH))
    everyone = {"full": model, **pruned}
    with evaluation_mode(model):
        times = take_turns({name: partial(forward, m, task, batch) for name, m in everyone.items()}, TIMED_ROUNDS)
    found = {}
    for name in pruned:
        middle, low, high = speedup(times["full"], times[name])
        found[name] = Speedup(middle, (low, high))
    return Speeds(batch=TIMED_BATCH, length=task.length, threads=torch.get_num_threads(), variants=found)
