"""Where cells are judged: by threads of this process, each with its own copy of the model.

A cell runs on one thread from beginning to end. Threads that share a cell wait for each other at every layer, which on
a machine with other work to do costs more than the cell itself; and rows do not depend on how many there are.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from aireprune.experiments.cells import Result
from aireprune.experiments.judging import Judge
from aireprune.experiments.request import Cell, SweepRequest
from aireprune.method.threads import one_blas_thread
from aireprune.tasks.base import Task

TOGETHER = 8  # cells that are judged batch by batch together, at most
TURNS = 4  # groups of cells for every worker, at least, so that none waits long for the last one
GROUP_BYTES = 1 << 30  # of the models of a group
COPIES_BYTES = 1 << 33  # of the copies of the full model


@dataclass(frozen=True)
class Subject:
    """What is swept."""

    model: nn.Module
    task: Task
    request: SweepRequest

    @property
    def bytes(self) -> int:
        """Of the model's parameters."""
        return sum(p.numel() * p.element_size() for p in self.model.parameters())


Groups = Sequence[Sequence[Cell]]
Judged = Generator[list[Result], None, None]
Run = Callable[[Subject, Sequence[Cell]], Judged]  # results of a few cells at a time, in any order


def run_here(subject: Subject, cells: Sequence[Cell]) -> Judged:
    """Results in the order of the cells."""
    if not cells:
        return
    threads = torch.get_num_threads()
    workers = min(threads, max(1, COPIES_BYTES // max(subject.bytes, 1)), len(cells))
    groups = in_groups(cells, workers, subject.bytes)
    with _threads_each(threads // workers) as limit:
        if workers == 1:
            yield from map(Judge(subject.model, subject.task, subject.request), groups)
        else:
            yield from _spread(subject, groups, workers, limit)


def in_groups(cells: Sequence[Cell], workers: int, model_bytes: int) -> list[Sequence[Cell]]:
    """Neighbours together, so that what they have in common is computed once: as many as memory and workers allow."""
    size = max(1, min(TOGETHER, GROUP_BYTES // max(model_bytes, 1), -(-len(cells) // (TURNS * workers))))
    return [cells[first : first + size] for first in range(0, len(cells), size)]


def _spread(subject: Subject, groups: Groups, workers: int, limit: Callable[[], None]) -> Iterator[list[Result]]:
    own = threading.local()

    def prepare() -> None:
        limit()
        own.judge = Judge(copy.deepcopy(subject.model), subject.task, subject.request)

    pool = ThreadPoolExecutor(workers, "sweep", prepare)
    try:
        yield from pool.map(lambda group: own.judge(group), groups)
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _threads_each(count: int) -> Iterator[Callable[[], None]]:
    """So many threads of torch for every worker, who calls what it is given, and one of NumPy; then as before."""
    before = torch.get_num_threads()

    def limit() -> None:
        torch.set_num_threads(count)

    try:
        with one_blas_thread():
            limit()
            yield limit
    finally:
        torch.set_num_threads(before)
