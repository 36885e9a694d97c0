"""Cells judged by the workers of a Ray cluster: the same rows, in the order in which they are done.

Model, task and request are put into the object store once and come to a node once; a worker process keeps them, with
what calibration measured, for as long as it is given cells of the same sweep.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from aireprune.cluster import RETRIES, completed, connect, cpus
from aireprune.experiments.cells import Result
from aireprune.experiments.judging import Judge
from aireprune.experiments.request import Cell
from aireprune.experiments.workers import Judged, Run, Subject, in_groups, run_here
from aireprune.method.threads import one_blas_thread

_kept: dict[str, Judge] = {}  # in a worker process: of the sweep it works for


def runner(ray: str | None) -> Run:
    """Who judges the cells: threads of this process, or the cluster at an address ('auto', HOST:PORT)."""
    return run_here if ray is None else partial(_run, connect(ray))


def _run(ray: Any, subject: Subject, cells: Sequence[Cell]) -> Judged:
    if not cells:
        return
    gpus = 0 if next(subject.model.parameters()).device.type == "cpu" else 1
    task = ray.remote(judge_on_worker).options(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)
    shared, sweep = ray.put(subject), uuid.uuid4().hex
    groups = in_groups(cells, cpus(ray), subject.bytes)
    yield from completed(ray, [task.remote(sweep, [shared], group) for group in groups])


def judge_on_worker(sweep: str, shared: Sequence[Any], cells: Sequence[Cell]) -> list[Result]:
    """In a worker. shared: a reference to the subject, in a list, so that it is fetched only if it is not known yet."""
    torch.set_num_threads(1)
    if sweep not in _kept:
        import ray

        subject = ray.get(shared[0])
        _kept.clear()
        _kept[sweep] = Judge(subject.model, subject.task, subject.request)
    with one_blas_thread():
        return _kept[sweep](cells)
