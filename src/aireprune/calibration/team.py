"""Processes that calibrate one model together: each runs its share of the batches, and sums are over all of them.

The walk is the same in every process. Wherever something is added up over batches, `total` adds what all processes have,
in their order. So every process solves for the same weights and goes on with them, and the result is that of one process
up to the rounding of these sums. A process by itself, the usual case, is a team of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

T = TypeVar("T")


class Team:
    """A team of one. number: which of the processes this is, from 0 on; size: how many there are."""

    number, size = 0, 1

    def exchange(self, arrays: Sequence[np.ndarray]) -> Sequence[Sequence[np.ndarray]]:
        """What every process has given for this exchange, in their order; all of them must come to it."""
        return [arrays]


ALONE = Team()
_present: ContextVar[Team] = ContextVar("team", default=ALONE)


@contextmanager
def working_in(team: Team) -> Iterator[None]:
    """Calibrate as a member of the team."""
    token = _present.set(team)
    try:
        yield
    finally:
        _present.reset(token)


def leads() -> bool:
    """Whether this process is the first of its team, which keeps what all have found."""
    return _present.get().number == 0


def share(values: Sequence[T]) -> Sequence[T]:
    """Those that are for this process."""
    team = _present.get()
    return values[team.number :: team.size]


def total(*sums: Tensor) -> None:
    """Replace each sum, in place, by its total over all processes, the same in every one of them."""
    team = _present.get()
    if team.size == 1:
        return
    given = team.exchange([one.numpy() for one in sums])
    for target, parts in zip(sums, zip(*given, strict=True), strict=True):
        target.copy_(torch.from_numpy(np.asarray(sum(parts[1:], start=np.array(parts[0])))))


def total_number(mine: int) -> int:
    """The sum of a whole number over all processes."""
    found = torch.tensor(mine)
    total(found)
    return int(found)


def wait_for_all() -> None:
    """Go on when every process has come here."""
    _present.get().exchange([])
