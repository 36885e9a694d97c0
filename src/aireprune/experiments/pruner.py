"""How experiments prune: the one module of this folder that calls the public functions of the package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from aireprune.calibration.inputs import Inputs, read_inputs, task_inputs
from aireprune.experiments.request import Cell, SweepRequest
from aireprune.experiments.variants import Variant
from aireprune.pruning.plan import Plan
from aireprune.pruning.source import open_source
from aireprune.tasks.base import Task


@dataclass(frozen=True)
class Pruned:
    """A smaller model, and the plan that was applied."""

    model: nn.Module
    plan: Plan


class Pruner:
    """Prunes one model again and again; what calibration measures on the full model is measured once.

    inputs: gives the calibration inputs, asked for when a calibrated variant first needs them.
    """

    def __init__(self, model: nn.Module, inputs: Callable[[], Inputs] | None = None):
        self.model, self._read = model, inputs
        self._known: dict[tuple[str, str], dict[str, Any]] = {}

    def __call__(self, cell: Cell) -> Pruned:
        from aireprune.api import prune

        if cell.variant.calibrated:
            return self._calibrated(cell)
        return _with_plan(prune(self.model, **_options(cell)))

    def plan(self, cell: Cell) -> Plan:
        """What would be kept; nothing is pruned."""
        from aireprune.api import plan

        return plan(self.model, **_options(cell))

    def apply(self, plan: Plan, mask: bool = False) -> nn.Module:
        """The model without the states that the plan does not keep, or with these silenced."""
        from aireprune.api import prune

        return prune(self.model, plan, mask=mask)

    @property
    def fingerprint(self) -> str:
        """Of the full model's state space layers."""
        return open_source(self.model).fingerprint()

    @cached_property
    def inputs(self) -> Inputs:
        assert self._read is not None, "calibrated variants need inputs"
        return self._read()

    def _calibrated(self, cell: Cell) -> Pruned:
        from aireprune.calibration.pipeline import prune_calibrated

        known = self._measured(cell.variant)
        return _with_plan(prune_calibrated(self.model, self.inputs, known=known, **_options(cell)))

    def _measured(self, variant: Variant) -> dict[str, Any]:
        from aireprune.calibration.pipeline import measure

        kind = (variant.method, variant.reduce)
        if kind not in self._known:
            self._known[kind] = measure(self.model, self.inputs, *kind)
        return self._known[kind]


def sweep_inputs(task: Task, request: SweepRequest) -> Inputs:
    """The calibration inputs of a sweep: those that it names, or the task's training split."""
    if request.calibrate is None:
        return task_inputs(task, request.calibrate_count)
    return read_inputs(request.calibrate, request.calibrate_count)


def load_model(path: Path) -> nn.Module:
    from aireprune.api import load

    return load(path)


def save_model(model: nn.Module, path: Path) -> None:
    """As a folder in our own format, in place of one that is there."""
    from aireprune.api import save

    save(model, path, overwrite=True)


def _options(cell: Cell) -> dict[str, Any]:
    """A cell as arguments of `aireprune.plan`."""
    variant = cell.variant
    return {
        "method": variant.method,
        "reduce": variant.reduce,
        "ratio": cell.ratio,
        "seed": cell.seed,
        "epsilon": variant.epsilon,
        "horizon": variant.horizon,
    }


def _with_plan(model: nn.Module) -> Pruned:
    plan: Any = model.plan
    return Pruned(model, plan)
