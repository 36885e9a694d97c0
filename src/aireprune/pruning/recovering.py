"""A pruned model that learns from the full one: where that is kept while it is under way, and what is told of it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aireprune.calibration.inputs import Inputs
from aireprune.calibration.recovery import recover
from aireprune.calibration.recovery_run import Effort, Keeper, Progress
from aireprune.models.arrays import to_numpy
from aireprune.pruning.calibrating import read_recovery
from aireprune.pruning.companions import keep_plan
from aireprune.pruning.folders import digest
from aireprune.pruning.recovery_store import RecoveryStore, recovery_folder
from aireprune.pruning.request import Job
from aireprune.pruning.source import ModuleSource, open_module
from aireprune.training.lock import locked

if TYPE_CHECKING:
    from torch import Tensor

    from aireprune.pruning.outcome import Pruned

LINES = 20  # that are told of a recovery


@dataclass(frozen=True)
class Place:
    """target: where the model will be written, if it will; a recovery under way is kept beside. report: is told lines."""

    target: Path | None = None
    report: Callable[[str], None] = lambda line: None


def recovered(full: ModuleSource, done: Pruned, job: Job, inputs: Inputs | None, place: Place) -> Pruned:
    """What came of a job, recovered as the job says. inputs: to learn from, if they have been read."""
    assert job.recovery is not None
    assert done.model is not None
    inputs = inputs or read_recovery(full, job)
    assert inputs is not None
    effort = Effort(minutes=job.recovery.minutes, steps=job.recovery.steps)
    keeper = Keeper()
    if place.target is not None:
        facts = {"plan": done.plan.to_json(), "full": _digest(full.module.state_dict()), "inputs": digest(inputs)}
        keeper = RecoveryStore(place.target, {**facts, **asdict(effort)})
    reduced = open_module(done.model, config=full.settings, units=job.units)
    with nullcontext() if place.target is None else locked(recovery_folder(place.target), "recovery"):
        found = recover(full, reduced, inputs, effort, keeper, _Teller(place.report))
    # the certificate speaks of the reduction alone, not of what was learnt afterwards
    plan = replace(done.plan, certificate=None, recovered=found.steps) if found.best else done.plan
    keep_plan(found.model, plan)
    return replace(done, plan=plan, notices=(*done.notices, *found.notices), model=found.model, recovered=found)


class _Teller:
    """Tells of a recovery in LINES lines: how far it is from the full model, and how much time is left."""

    def __init__(self, tell: Callable[[str], None]):
        self.tell = tell
        self.first: tuple[int, float] | None = None

    def __call__(self, now: Progress) -> None:
        if self.first is None:
            self.first = now.step - 1, time.monotonic()
        every = -(-now.steps // LINES)
        if now.step % every and now.step < now.steps:
            return
        done, seconds = now.step - self.first[0], time.monotonic() - self.first[1]
        left = seconds / done * (now.steps - now.step)
        far = f"divergence {now.closest.kl:.4f}" if now.closest.kl is not None else f"distance {now.closest.output:.1%}"
        self.tell(f"recovery: step {now.step:,} of {now.steps:,}, {far} at best, {_minutes(left)} left")


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _digest(state: Mapping[str, Tensor]) -> str:
    """A hash of all weights of a model."""
    found = hashlib.blake2b(digest_size=16)
    for name, tensor in state.items():
        found.update(f"{name} {tuple(tensor.shape)};".encode())
        found.update(np.ascontiguousarray(to_numpy(tensor)).data)
    return found.hexdigest()
