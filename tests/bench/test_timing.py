"""Turns are taken in order, the first round is not counted, and ratios are those of the rounds."""

from __future__ import annotations

import numpy as np

from aireprune.bench.timing import medians, ratio, take_turns


def test_turns():
    order: list[str] = []
    times = take_turns({name: lambda name=name: order.append(name) for name in "ab"}, 3)
    assert order == ["a", "b"] * 4
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}


def test_ratios_and_medians():
    slow, fast = np.array([2.0, 9.0, 8.0]), np.array([1.0, 3.0, 2.0])
    assert ratio(slow, fast) == (3.0, 2.5, 3.5)
    assert medians({"slow": slow, "fast": fast}) == {"slow": 8.0, "fast": 2.0}
