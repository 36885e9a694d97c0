"""A team of the workers of a Ray cluster, one for each CPU, all of which see the same disk.

Work is a function that every worker runs. What they exchange goes through the object store, by way of a hub that knows
who has given what. If a worker is lost, all of them start again; what the work keeps on disk is not done twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from aireprune.calibration.team import Team, working_in
from aireprune.cluster import RETRIES, connect, cpus, result
from aireprune.errors import AireError
from aireprune.method.threads import one_blas_thread

SECONDS = 60.0  # in which the cluster has to find room for all workers
PATIENCE = 0.5  # seconds between two looks at them

Report = Callable[[str], None]
T = TypeVar("T")


class Hub:
    """Knows what workers have given for every exchange, and what the first of them reports. In a process of its own."""

    def __init__(self, size: int) -> None:
        self.size, self.lines = size, list[str]()
        self.given: dict[int, dict[int, Any]] = {}
        self.complete: dict[int, asyncio.Event] = {}

    async def exchange(self, turn: int, number: int, given: Any) -> list[Any]:
        """What all workers have given for a turn, when all have. Then nobody needs the turn before any more."""
        present, complete = self.given.setdefault(turn, {}), self.complete.setdefault(turn, asyncio.Event())
        present[number] = given
        if len(present) == self.size:
            complete.set()
            self.given.pop(turn - 1, None)
            self.complete.pop(turn - 1, None)
        await complete.wait()
        return [present[other] for other in range(self.size)]

    async def say(self, line: str) -> None:
        self.lines.append(line)

    async def heard(self, since: int) -> list[str]:
        """The lines from number `since` on."""
        return self.lines[since:]


class RayTeam(Team):
    """One of several workers."""

    def __init__(self, hub: Any, number: int, size: int) -> None:
        self.hub, self.number, self.size, self.turn = hub, number, size, 0

    def exchange(self, arrays: Sequence[np.ndarray]) -> Sequence[Sequence[np.ndarray]]:
        import ray

        mine = [ray.put(list(arrays))]  # in a list, so that the hub does not fetch it
        given = ray.get(self.hub.exchange.remote(self.turn, self.number, mine))
        self.turn += 1
        found: list[list[np.ndarray]] = ray.get([one for (one,) in given])
        return found


def run_as_team(address: str, work: Callable[[Report], T], most: int, report: Report) -> T:
    """What the first of at most `most` workers finds; the cluster is at an address ('auto', HOST:PORT)."""
    ray = connect(address)
    for _ in range(RETRIES):
        try:
            return _run_once(ray, work, max(1, min(most, cpus(ray))), report)
        except _LostError:
            report("a worker of the cluster was lost; starting again from what is kept")
    raise AireError(
        f"Workers of the cluster were lost {RETRIES} times. What is done is kept: run the same command again."
    )


class _LostError(Exception):
    """A worker or its node is gone."""


def _run_once(ray: Any, work: Callable[[Report], T], size: int, report: Report) -> T:
    room = ray.util.placement_group([{"CPU": 1}] * size, strategy="SPREAD")
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
    hub = ray.remote(num_cpus=0)(Hub).remote(size)
    tasks: list[Any] = []
    try:
        if not room.wait(SECONDS):
            raise AireError(f"The cluster has no room for {size} workers at a time: wait until it is free.")
        member = ray.remote(num_cpus=1, max_retries=0)(work_as_member)
        for number in range(size):
            there = strategy(room, placement_group_bundle_index=number)
            tasks.append(member.options(scheduling_strategy=there).remote((hub, number, size), work))
        _follow(ray, hub, tasks, report)
        found: T = result(ray, tasks[0])
        return found
    finally:
        for task in tasks:
            ray.cancel(task, force=True)
        ray.kill(hub)
        ray.util.remove_placement_group(room)


def _follow(ray: Any, hub: Any, tasks: Sequence[Any], report: Report) -> None:
    """Until all tasks have ended; the first problem of any of them is raised."""
    told, waiting = 0, list(tasks)
    while waiting:
        ended, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=PATIENCE)
        try:
            for line in ray.get(hub.heard.remote(told)):
                report(line)
                told += 1
            ray.get(ended)
        except ray.exceptions.RayTaskError as problem:
            if isinstance(problem.cause, ray.exceptions.RayError):  # it waited for one that is gone
                raise _LostError from None
            for task in ended:
                result(ray, task)
        except ray.exceptions.RayError:
            raise _LostError from None


def work_as_member(place: tuple[Any, int, int], work: Callable[[Report], T]) -> T | None:
    """In a worker. place: the hub, this worker's number, and how many there are."""
    import ray

    hub, number, size = place
    torch.set_num_threads(1)

    def report(line: str) -> None:
        ray.get(hub.say.remote(line))

    with one_blas_thread(), working_in(RayTeam(hub, number, size)):
        found = work(report if number == 0 else lambda line: None)
    return found if number == 0 else None
