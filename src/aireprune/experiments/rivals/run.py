"""Doing what the page needs: every model made smaller in every way, judged, and kept as data.

A folder per model of a comparison holds comparison.json (the model and the examples) and cells.jsonl (a line per result).
What is there is not done again, and a page is rendered from it without data sets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from torch import nn

from aireprune.calibration.inputs import COUNT, Inputs, task_inputs
from aireprune.errors import AireError
from aireprune.experiments.cells import Key, append_cell, read_cells
from aireprune.experiments.judging import result_of
from aireprune.experiments.request import FULL
from aireprune.experiments.rivals.comparisons import TASK, Comparison, Way
from aireprune.experiments.stored import read_object, text, understood, whole
from aireprune.files.writing.atomic import atomic_path
from aireprune.pruning.defaults import settle
from aireprune.pruning.measuring import Measured, measure
from aireprune.pruning.plan import Plan
from aireprune.pruning.prune import prune_module
from aireprune.pruning.request import RECOVERY_COUNT, Job
from aireprune.pruning.source import FileSource, ModuleSource, open_file, open_module
from aireprune.tasks import load_task
from aireprune.tasks.base import Task
from aireprune.tasks.evaluate import per_example
from aireprune.zoo import locate

Report = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How many test and validation examples (0: all), and how many steps of recovery (0: none)."""

    examples: int = 2000
    validation: int = 1000
    recover_steps: int = 1000


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a comparison is about, as comparison.json has it.

    sizes: states of every layer. features: between layers. examples, validation: as asked for, 0 for all; tested: how many
    test examples that was.
    """

    model: str
    fingerprint: str
    family: str
    sizes: tuple[int, ...]
    features: int
    examples: int
    validation: int
    tested: int = 0

    @classmethod
    def load(cls, path: Path) -> Facts:
        with understood(path, "does not say what was compared; delete the folder, and it is done again"):
            values = read_object(path)
            return cls(
                model=text(values["model"]),
                fingerprint=text(values["fingerprint"]),
                family=text(values["family"]),
                sizes=tuple(map(whole, values["sizes"])),
                features=whole(values["features"]),
                examples=whole(values["examples"]),
                validation=whole(values["validation"]),
                tested=whole(values["tested"]),
            )


def folder_of(data: Path, comparison: Comparison, number: int) -> Path:
    """Where the data of a comparison's models is: NAME, NAME-2, NAME-3."""
    return data / (f"{comparison.name}-{number + 1}" if number else comparison.name)


def gather(comparison: Comparison, model: str, folder: Path, effort: Effort, report: Report) -> None:
    """Do the cells of a comparison that are missing in the folder. model: where the checkpoint is, or zoo:NAME."""
    source = open_file(locate(model))
    facts, known, path = _facts(source, model, effort), folder / "comparison.json", folder / "cells.jsonl"
    _agree(known, facts)
    wanted = list(_wanted(comparison, effort))
    done = read_cells(path)
    missing = [(key, way) for key, way in wanted if key not in done]
    if not missing:
        return
    workshop = _Workshop(source.build(), load_task(TASK), effort)
    _write(known, replace(facts, tested=len(workshop.test)))
    for number, (key, way) in enumerate(missing, len(wanted) - len(missing)):
        report(f"{comparison.name}: {key.variant} at {key.ratio:.1%}", number, len(wanted))
        small, plan = workshop.made(way, key.ratio)
        append_cell(path, result_of(key, small, plan, workshop.judged(small)))
    report(comparison.name, len(wanted), len(wanted))


def _wanted(comparison: Comparison, effort: Effort) -> Iterator[tuple[Key, Way | None]]:
    """The full model, then every way at every share."""
    yield FULL.key, None
    for way in comparison.ways(effort.recover_steps):
        for share in comparison.shares.values():
            yield Key(way.name, share, 0), way


class _Workshop:
    """Makes one model smaller and judges the results; what calibration measures is measured once per way."""

    def __init__(self, model: nn.Module, task: Task, effort: Effort):
        self.source, self.task = open_module(model), task
        self.validation = task.validation.rows(slice(effort.validation or None))
        self.test = task.test.rows(slice(effort.examples or None))
        self._known: dict[tuple[str, str], Measured] = {}

    def made(self, way: Way | None, ratio: float) -> tuple[nn.Module, Plan | None]:
        """The smaller model and its plan; without a way, the full one."""
        if way is None:
            return self.source.module, None
        source, job = settle(self.source, way.job(ratio), own=True)
        known = None if job.calibration is None else self._measured(source, job)
        if known is not None and way.measured_alone:
            job, known = replace(job, calibration=None, evidence=known.evidence), None
        done = prune_module(source, job, known)
        assert done.model is not None
        return done.model, done.plan

    def judged(self, model: nn.Module) -> tuple[np.ndarray, np.ndarray]:
        """The metric of every validation and of every test example."""
        validation, test = (per_example(model, self.task, part) for part in (self.validation, self.test))
        return validation, test

    @cached_property
    def _inputs(self) -> tuple[Inputs, Inputs]:
        """To calibrate with, and to recover with."""
        return task_inputs(self.task, COUNT), task_inputs(self.task, RECOVERY_COUNT)

    def _measured(self, source: ModuleSource, job: Job) -> Measured:
        assert job.request is not None
        kind = (job.request.method, job.request.reduce)
        inputs, lessons = self._inputs
        if kind not in self._known:
            self._known[kind] = replace(measure(source, job, inputs), lessons=lessons)
        return self._known[kind]


def _facts(source: FileSource, model: str, effort: Effort) -> Facts:
    return Facts(
        model=model,
        fingerprint=source.fingerprint(),
        family=source.layers[0].family,
        sizes=tuple(layer.states for layer in source.layers),
        features=whole(source.config.get("h") or source.config.get("d_model")),
        examples=effort.examples,
        validation=effort.validation,
    )


def _agree(path: Path, wanted: Facts) -> None:
    """A folder that exists must be about the same model and examples; ways may be added."""
    if not path.is_file():
        return
    old = Facts.load(path)
    for name, value in asdict(replace(wanted, model=old.model, tested=old.tested)).items():
        if getattr(old, name) != value:
            raise AireError(
                f"{path.parent} holds another comparison: its {name} is {getattr(old, name)!r}, not {value!r}. Choose "
                "another folder, or delete it."
            )


def _write(path: Path, facts: Facts) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(asdict(facts), indent=1) + "\n")
