"""Processes that share the batches of a calibration find what one process finds, up to the rounding of sums."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from small_models import LENGTH, MODELS, inputs
from torch import nn

import aireprune
from aireprune.calibration import readout
from aireprune.calibration.comparison import measure_fit
from aireprune.calibration.covariance import measured_covariances
from aireprune.calibration.inputs import ArrayInputs
from aireprune.calibration.on_ray import Hub
from aireprune.calibration.readout import calibrate
from aireprune.calibration.rows import fit_rows
from aireprune.calibration.subject import find_subject
from aireprune.calibration.team import Team, leads, share, total, total_number, working_in
from aireprune.pruning.source import open_module

SIZE = 3


class Board:
    """Where threads that stand for processes leave what they give."""

    def __init__(self, size: int = SIZE) -> None:
        self.given: list[list[np.ndarray]] = [[] for _ in range(size)]
        self.barrier = threading.Barrier(size, timeout=60)


class Threads(Team):
    def __init__(self, board: Board, number: int) -> None:
        self.board, self.number, self.size = board, number, len(board.given)

    def exchange(self, arrays: Sequence[np.ndarray]) -> Sequence[Sequence[np.ndarray]]:
        self.board.given[self.number] = [np.array(array) for array in arrays]
        self.board.barrier.wait()
        given = list(self.board.given)
        self.board.barrier.wait()
        return given


def together(work: Callable[[], Any]) -> list[Any]:
    """What every member of a team finds."""
    board = Board()

    def run(number: int) -> Any:
        with working_in(Threads(board, number)):
            return work()

    with ThreadPoolExecutor(SIZE) as pool:
        return list(pool.map(run, range(SIZE)))


def test_sums_and_shares_are_of_all() -> None:
    def work() -> Any:
        mine = share(range(10))
        sums = torch.tensor([float(sum(mine)), 1.0])
        total(sums)
        return list(mine), sums.tolist(), total_number(len(mine)), leads()

    found = together(work)
    assert sorted(number for mine, *_ in found for number in mine) == list(range(10))
    assert [rest for _, *rest in found] == [[[45.0, 3.0], 10, number == 0] for number in range(SIZE)]
    assert work() == (list(range(10)), [45.0, 1.0], 10, True)


@pytest.mark.parametrize(("name", "rows"), [("s5 two ways", False), ("s4d", False), ("mamba", False), ("mamba2", True)])
def test_a_team_fits_what_one_process_fits(name: str, rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readout, "fit_rows", partial(fit_rows, steps=8))
    full = MODELS[name]()
    reduced = aireprune.prune(full, ratio=0.5, reduce="truncate")
    given = ArrayInputs(inputs(24), batch_tokens=3 * LENGTH)
    assert given.batches >= 2 * SIZE

    def work() -> tuple[nn.Module, Any, Any]:
        own, small = (open_module(copy.deepcopy(model)) for model in (full, reduced))
        subject = find_subject(own, given)
        covariances = measured_covariances(subject, given)
        fitted = calibrate(subject, small, given, rows=rows)
        return fitted, covariances, measure_fit(subject, small.module, fitted, given)

    alone, covariances, fit = work()
    for fitted, found, measured in together(work):
        for ours, theirs in zip(found, covariances, strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12 * np.abs(theirs).max())
        for key, value in alone.state_dict().items():
            torch.testing.assert_close(fitted.state_dict()[key], value, rtol=1e-4, atol=1e-5, msg=key)
        assert measured.after.output == pytest.approx(fit.after.output, rel=1e-4)
        assert measured.before.layers.keys() == fit.before.layers.keys()


@pytest.mark.parametrize(("name", "rows"), [("s5 two ways", False), ("mamba2", True)])
def test_the_same_number_of_workers_finds_the_same_bits(name: str, rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every member and in every run; threads take turns differently each time, and the members' order decides."""
    monkeypatch.setattr(readout, "fit_rows", partial(fit_rows, steps=8))
    full = MODELS[name]()
    reduced = aireprune.prune(full, ratio=0.5, reduce="truncate")
    given = ArrayInputs(inputs(24), batch_tokens=3 * LENGTH)

    def work() -> dict[str, torch.Tensor]:
        own, small = (open_module(copy.deepcopy(model)) for model in (full, reduced))
        return calibrate(find_subject(own, given), small, given, rows=rows).state_dict()

    first, *others = together(work) + together(work)
    assert any(
        not torch.equal(value, reduced.state_dict()[key]) for key, value in first.items()
    )  # something was fitted
    for other in others:
        assert other.keys() == first.keys()
        for key, value in first.items():
            assert torch.equal(other[key], value), key


def test_totals_are_added_in_the_order_of_the_members() -> None:
    """Not in the order in which they come: with 1e16, 1 and -1e16 only one order of doubles gives 0."""

    def work() -> float:
        number = int(share(range(SIZE))[0])
        time.sleep(0.05 * (SIZE - number))  # the last one comes first
        sums = torch.tensor([1e16, 1.0, -1e16], dtype=torch.float64)[number : number + 1].clone()
        total(sums)
        return float(sums)

    assert together(work) == [(1e16 + 1.0) - 1e16] * SIZE


def test_the_hub_forgets_turns_that_nobody_needs() -> None:
    async def work() -> tuple[list[list[str]], int]:
        hub = Hub(2)
        found = []
        for turn in range(3):
            found += await asyncio.gather(*(hub.exchange(turn, number, f"{turn}{number}") for number in (1, 0)))
        return found, len(hub.given)

    assert asyncio.run(work()) == ([[f"{turn}0", f"{turn}1"] for turn in range(3) for _ in range(2)], 1)
