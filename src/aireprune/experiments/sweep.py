"""Sweeps: every variant of pruning at every ratio on one model and task, one line of JSON per cell as it is done.

A folder holds sweep.json (what is swept), cells.jsonl (results, appended one by one) and summary.json. A sweep that was
interrupted goes on where it stopped, and its cells are the same as those of one that was not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from aireprune.errors import AireError
from aireprune.experiments.cells import Result, append_cell, read_cells
from aireprune.experiments.part import Part
from aireprune.experiments.request import FULL, SweepRequest
from aireprune.experiments.stored import read_object, understood
from aireprune.experiments.summary import Summary, summarise
from aireprune.experiments.workers import Run, Subject, run_here
from aireprune.files.writing.atomic import atomic_path
from aireprune.pruning.source import open_module
from aireprune.tasks.base import Task
from aireprune.tasks.fit import check_fit
from aireprune.training.lock import locked
from aireprune.version import VERSION

MAY_CHANGE = ("variants", "ratios", "drop", "source", "version")  # between two runs of one sweep
Report = Callable[[Result, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a sweep's rows do not depend on. source: where the model came from, for reports. run: who judges the cells."""

    source: str | None = None
    run: Run = run_here


HERE = Setting()


def run_sweep(
    model: nn.Module,
    task: Task,
    request: SweepRequest,
    folder: Path,
    report: Report = lambda result, done, total: None,
    setting: Setting = HERE,
) -> Summary:
    """Do the cells that are not yet done, and return the summary. report(result, cells done, cells in all)."""
    subject = Subject(model, task, request)
    _run(subject, folder, report, setting)
    summary = summarise(task, request, read_cells(folder / "cells.jsonl"))
    summary.save(folder / "summary.json")
    return summary


def run_part(subject: Subject, part: Part, folder: Path, report: Report, setting: Setting = HERE) -> Path:
    """Do a share of the cells in a folder of its own within `folder`, which is returned. It also has the full model."""
    mine = folder / part.folder
    _run(subject, mine, report, setting, part)
    return mine


def _run(subject: Subject, folder: Path, report: Report, setting: Setting, part: Part | None = None) -> None:
    """The cells that are missing in the folder; those that are there are reported first."""
    check_fit(subject.model, subject.task)
    with locked(folder, "sweep"):
        _agree(folder / "sweep.json", _description(subject, setting.source, part))
        path = folder / "cells.jsonl"
        results, cells = read_cells(path), list(subject.request.cells())
        mine = cells if part is None else part.of(cells)
        done = [results[cell.key] for cell in mine if cell.key in results]
        for number, result in enumerate(done, 1):
            report(result, number, len(mine))
        missing = [cell for cell in (FULL, *mine) if cell.key not in results]
        number = len(done)
        with closing(setting.run(subject, missing)) as judged:
            for group in judged:
                for result in group:
                    append_cell(path, result)
                    if result.key != FULL.key:
                        number += 1
                        report(result, number, len(mine))


def _description(subject: Subject, source: str | None, part: Part | None) -> dict[str, Any]:
    """Everything the results depend on, as JSON has it, and where the model came from."""
    told = {
        "task": subject.task.name,
        "metric": subject.task.metric,
        "fingerprint": open_module(subject.model).fingerprint(),
        "version": VERSION,
        **subject.request.to_dict(),
    }
    told |= {} if source is None else {"source": source}
    return told if part is None else {**told, "part": str(part)}


def _agree(path: Path, wanted: dict[str, Any]) -> None:
    """Write what is swept, or check that the folder is of the same sweep; cells may be added, nothing else may differ.

    Of a part, nothing may differ at all: the others do not know of it.
    """
    if path.is_file():
        with understood(path, "does not say what was swept; delete the folder, or choose another one"):
            old = read_object(path)
            known = {variant["name"]: variant for variant in old["variants"]}
        for key in sorted({*wanted, *old} - {"source"}, key=list({**wanted, **old}).index):
            if (key not in MAY_CHANGE or "part" in wanted) and old.get(key) != wanted.get(key):
                raise AireError(
                    f"{path.parent} holds another sweep: its {key} is {old.get(key)!r}, not {wanted.get(key)!r}. Choose "
                    "another folder or delete it."
                )
        for variant in wanted["variants"]:
            if known.get(variant["name"], variant) != variant:
                raise AireError(f"{path.parent} holds another sweep: its {variant['name']} has other options.")
    write_description(path, wanted)


def write_description(path: Path, told: dict[str, Any]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(told, indent=1) + "\n")
