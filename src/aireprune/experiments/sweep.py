"""Sweeps: every variant of pruning at every ratio on one model and task, one line of JSON per cell as it is done.

A folder holds sweep.json (what is swept), cells.jsonl (results, appended one by one) and summary.json. A sweep that was
interrupted goes on where it stopped, and its cells are the same as those of one that was not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from aireprune.errors import AireError
from aireprune.experiments.cells import Key, LayerCount, Result, append_cell, pack, read_cells
from aireprune.experiments.pruner import Pruner, sweep_inputs
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.stored import read_object, understood
from aireprune.experiments.summary import FULL, Summary, summarise
from aireprune.files.writing.atomic import atomic_path
from aireprune.pruning.plan import Plan
from aireprune.tasks.base import Task
from aireprune.tasks.evaluate import per_example
from aireprune.tasks.fit import check_fit
from aireprune.training.lock import locked

MAY_CHANGE = ("variants", "ratios", "drop", "source")  # between two runs of one sweep
Report = Callable[[Result, int, int], None]


def run_sweep(
    model: nn.Module,
    task: Task,
    request: SweepRequest,
    folder: Path,
    report: Report = lambda result, done, total: None,
    source: str | None = None,
) -> Summary:
    """Do the cells that are not yet done, and return the summary. report(result, cells done, cells in all).

    source: where the model came from, for reports.
    """
    check_fit(model, task)
    with locked(folder, "sweep"):
        pruner = Pruner(model, lambda: sweep_inputs(task, request))
        _agree(folder / "sweep.json", _description(task, request, pruner.fingerprint, source))
        return _sweep(pruner, task, request, folder, report)


def _sweep(pruner: Pruner, task: Task, request: SweepRequest, folder: Path, report: Report) -> Summary:
    path = folder / "cells.jsonl"
    results = read_cells(path)

    def done(key: Key, judged: Result) -> None:
        results[key] = judged
        append_cell(path, judged)

    if FULL not in results:
        done(FULL, judge(pruner.source.module, task, request, FULL))
    todo = list(request.cells())
    for number, cell in enumerate(todo):
        if cell.key not in results:
            pruned = pruner(cell)
            done(cell.key, judge(pruned.model, task, request, cell.key, pruned.plan))
        report(results[cell.key], number + 1, len(todo))
    summary = summarise(task, request, results)
    summary.save(folder / "summary.json")
    return summary


def judge(model: nn.Module, task: Task, request: SweepRequest, key: Key, plan: Plan | None = None) -> Result:
    """What stayed, and how the model does on validation and test examples. plan: None for the full model."""
    validation = per_example(model, task, task.validation.rows(slice(0, request.validation or None)))
    test = per_example(model, task, task.test.rows(slice(0, request.examples or None)))
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


def _description(task: Task, request: SweepRequest, fingerprint: str, source: str | None) -> dict[str, Any]:
    """Everything the results depend on, as JSON has it, and where the model came from."""
    told = {"task": task.name, "metric": task.metric, "fingerprint": fingerprint, **request.to_dict()}
    return told if source is None else {**told, "source": source}


def _agree(path: Path, wanted: dict[str, Any]) -> None:
    """Write what is swept, or check that the folder is of the same sweep; cells may be added, nothing else may differ."""
    if path.is_file():
        with understood(path, "does not say what was swept; delete the folder, or choose another one"):
            old = read_object(path)
            known = {variant["name"]: variant for variant in old["variants"]}
        for key, value in wanted.items():
            if key not in MAY_CHANGE and old.get(key) != value:
                raise AireError(
                    f"{path.parent} holds another sweep: its {key} is {old.get(key)!r}, not {value!r}. Choose another "
                    "folder or delete it."
                )
        for variant in wanted["variants"]:
            if known.get(variant["name"], variant) != variant:
                raise AireError(f"{path.parent} holds another sweep: its {variant['name']} has other options.")
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(wanted, indent=1) + "\n")
