"""Prune and judge some cells of a sweep: one worker's work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import nn

from aireprune.experiments.cells import Key, LayerCount, Result, pack
from aireprune.experiments.pruner import Pruner, sweep_inputs
from aireprune.experiments.request import FULL, Cell, SweepRequest
from aireprune.pruning.plan import Plan
from aireprune.tasks.base import Task
from aireprune.tasks.evaluate import per_example_of_copies


class Judge:
    """judge(cells) -> results. Every worker has its own, and its own copy of the model, which calibration watches."""

    def __init__(self, model: nn.Module, task: Task, request: SweepRequest):
        self._pruner = Pruner(model, lambda: sweep_inputs(task, request), certified=False)
        self._task = task
        self._validation = task.validation.rows(slice(0, request.validation or None))
        self._test = task.test.rows(slice(0, request.examples or None))

    def __call__(self, cells: Sequence[Cell]) -> list[Result]:
        """What stayed of every cell's model, and how it does on validation and test examples."""
        small = [None if cell == FULL else self._pruner(cell) for cell in cells]
        models = [self._pruner.source.module if one is None else one.model for one in small]
        metrics = per_example_of_copies(models, self._task, (self._validation, self._test))
        return [
            result_of(cell.key, model, None if one is None else one.plan, (validation, test))
            for cell, model, one, (validation, test) in zip(cells, models, small, metrics, strict=True)
        ]


def result_of(key: Key, model: nn.Module, plan: Plan | None, metric: tuple[np.ndarray, np.ndarray]) -> Result:
    """plan: None for the full model. metric: of every validation and of every test example."""
    validation, test = metric
    layers = () if plan is None else plan.layers
    return Result(
        key=key,
        removed=0.0 if plan is None else plan.achieved_ratio,
        layers=tuple(LayerCount(layer.name, len(layer.kept), layer.states) for layer in layers),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        validation=float(validation.mean()),
        test=float(test.mean()),
        answers=pack(test),
    )
