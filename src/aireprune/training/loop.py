"""Training: AdamW, cosine schedule, resumable.

Dropout draws from a seed of its own at every step, so an interrupted run that is started again with the same settings
ends in the same weights as an uninterrupted one. Under torchrun every process takes its share of each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from torch import nn

from aireprune.memory import freed_memory_kept
from aireprune.models.create import AnyConfig
from aireprune.tasks.base import Split, Task
from aireprune.training.lock import locked
from aireprune.training.recipes import Recipe
from aireprune.training.run import Run
from aireprune.training.workers import Workers, join


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """How a run goes on, which makes no difference to where it ends.

    device: of a single process; None: the first GPU if there is one. save_every: steps. stop_after: end early, after so
    many steps, to be resumed.
    """

    device: str | None = None
    save_every: int = 200
    stop_after: int | None = None


@dataclass(frozen=True)
class Progress:
    """What a caller may want to show after a step."""

    epoch: int
    step: int
    steps: int
    loss: float
    validation: float | None = None


Report = Callable[[Progress], None]


def train_model(
    task: Task,
    config: AnyConfig,
    recipe: Recipe,
    folder: Path,
    conditions: Conditions = Conditions(),
    report: Report = lambda progress: None,
) -> nn.Module:
    """Train to the end, from the beginning or from where a run in `folder` stopped."""
    workers = join(conditions.device)
    with locked(folder, "training") if workers.first else nullcontext(), freed_memory_kept():
        return _train(Run(task, config, recipe, folder, workers), conditions, report)


def _train(run: Run, conditions: Conditions, report: Report) -> nn.Module:
    last = run.steps if conditions.stop_after is None else min(run.steps, run.step + conditions.stop_after)
    run.model.train()
    while run.step < last:
        epoch, first = divmod(run.step, run.per_epoch)
        for batch in islice(batches(run.task, run.recipe, epoch, first, run.workers), last - run.step):
            loss = run.learn(batch)
            report(Progress(epoch, run.step, run.steps, loss))
            whole = run.step % run.per_epoch == 0  # then it is saved with its validation
            if run.step % conditions.save_every == 0 and not whole:
                run.save()
        if whole and run.workers.first:
            report(Progress(epoch, run.step, run.steps, loss, run.validate(epoch)))
        run.save()
        run.workers.wait()
    return run.finish() if run.step == run.steps else run.model


def batches(task: Task, recipe: Recipe, epoch: int, first: int, workers: Workers) -> Iterator[Split]:
    """This process's shares of the epoch's shuffled batches from number `first` on.

    The order depends on the seed and the epoch only, variations of examples on the batch and the process too. Of every
    batch a process takes each count-th example.
    """
    examples = min(recipe.examples or len(task.train), len(task.train))
    order = np.random.default_rng((recipe.seed, epoch)).permutation(examples)
    for start in range(first * recipe.batch, examples - recipe.batch + 1, recipe.batch):
        chosen = np.sort(order[start : start + recipe.batch])
        rows = task.train.rows(chosen[workers.rank :: workers.count])
        if recipe.augment:
            assert task.augment is not None
            rng = np.random.default_rng((recipe.seed, epoch, start, workers.rank))
            rows = replace(rows, x=task.augment(rng, rows.x))
        yield rows
