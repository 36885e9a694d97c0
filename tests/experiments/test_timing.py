"""Runs that take turns."""

from __future__ import annotations

import numpy as np
import pytest

from aireprune.experiments.timing import speedup, take_turns


def test_runs_take_turns_and_the_first_round_does_not_count():
    order = []
    times = take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 3)
    assert order == ["a", "b"] * 4
    assert [len(times[name]) for name in "ab"] == [3, 3]


def test_speedups_are_of_rounds():
    slow, fast = np.array([2.0, 4.0, 9.0]), np.array([1.0, 1.0, 3.0])
    assert speedup(slow, fast) == pytest.approx((3.0, 2.5, 3.5))
