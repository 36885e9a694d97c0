"""How experiments prune one model again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import nn

from aireprune.calibration.inputs import Inputs, read_inputs, task_inputs
from aireprune.experiments.request import Cell, SweepRequest
from aireprune.method.selection import Budget
from aireprune.pruning.measuring import Measured, measure
from aireprune.pruning.plan import Plan
from aireprune.pruning.planning import make_plan
from aireprune.pruning.prune import prune_module
from aireprune.pruning.request import Calibration, Job, Request
from aireprune.pruning.source import open_file, open_module
from aireprune.tasks.base import Task


@dataclass(frozen=True)
class SmallModel:
    """A smaller model, and the plan that was applied."""

    model: nn.Module
    plan: Plan


class Pruner:
    """Prunes one model; what calibration measures on the full model is measured once.

    inputs: gives the calibration inputs, asked for when a calibrated variant first needs them. certified: plans say what is
    proved of their layers, which a sweep never asks.
    """

    def __init__(self, model: nn.Module, inputs: Callable[[], Inputs] | None = None, certified: bool = True):
        self.source, self._read, self._certified = open_module(model), inputs, certified
        self._known: dict[tuple[str, str], Measured] = {}

    def __call__(self, cell: Cell) -> SmallModel:
        # a curve has points where little is left of a layer, so nothing is refused for being damaged
        known = Calibration(source=self.inputs) if cell.variant.calibrated else None
        job = Job(request=_request(cell), calibration=known, force=True, certified=self._certified)
        return self._pruned(job, None if known is None else self._measured(cell, job))

    def plan(self, cell: Cell) -> Plan:
        """What would be kept; nothing is pruned."""
        return make_plan(self.source, _request(cell))

    def apply(self, plan: Plan, mask: bool = False) -> nn.Module:
        """The model without the states that the plan does not keep, or with these silenced."""
        return self._pruned(Job(plan=plan, mask=mask)).model

    @property
    def fingerprint(self) -> str:
        """Of the full model's state space layers."""
        return self.source.fingerprint()

    @cached_property
    def inputs(self) -> Inputs:
        assert self._read is not None, "calibrated variants need inputs"
        return self._read()

    def _pruned(self, job: Job, measured: Measured | None = None) -> SmallModel:
        done = prune_module(self.source, job, measured)
        assert done.model is not None
        return SmallModel(done.model, done.plan)

    def _measured(self, cell: Cell, job: Job) -> Measured:
        kind = (cell.variant.method, cell.variant.reduce)
        if kind not in self._known:
            self._known[kind] = measure(self.source, job, self.inputs)
        return self._known[kind]


def sweep_inputs(task: Task, request: SweepRequest) -> Inputs:
    """The calibration inputs of a sweep: those that it names, or the task's training split."""
    if request.calibrate is None:
        return task_inputs(task, request.calibrate_count)
    return read_inputs(request.calibrate, request.calibrate_count)


def load_model(path: Path) -> nn.Module:
    return open_file(path).build()


def _request(cell: Cell) -> Request:
    variant = cell.variant
    return Request(
        budget=Budget(ratio=cell.ratio),
        method=variant.method,
        reduce=variant.reduce,
        layout="adaptive",
        seed=cell.seed,
        epsilon=variant.epsilon,
        horizon=variant.horizon,
    )
