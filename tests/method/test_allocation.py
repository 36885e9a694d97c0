"""Allocation on measured curves: the best there is where curves are convex, and within the budget always."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from aireprune.method.allocation import Curve, allocate


def at(curve: Curve, count: int) -> float:
    """The curve between its points."""
    sizes = sorted(curve)
    return float(np.interp(count, sizes, [curve[size] for size in sizes]))


@pytest.mark.parametrize("seed", range(8))
def test_on_convex_curves_nothing_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    curves = []
    for _ in range(3):
        sizes = np.cumsum(rng.integers(1, 3, 4))
        falls = np.sort(rng.random(3))[::-1] * np.diff(sizes).max()
        slopes = np.sort(falls)[::-1]
        harm = np.concatenate([[0.0], -np.cumsum(slopes * np.diff(sizes))])
        curves.append(dict(zip(sizes.tolist(), (harm - harm[-1]).tolist(), strict=True)))
    fewest, most = sum(min(curve) for curve in curves), sum(max(curve) for curve in curves)
    for total in range(fewest, most + 1):
        counts = allocate(curves, total)
        assert sum(counts) == total
        best = min(
            sum(at(curve, count) for curve, count in zip(curves, choice, strict=True))
            for choice in product(*(range(min(curve), max(curve) + 1) for curve in curves))
            if sum(choice) == total
        )
        found = sum(at(curve, count) for curve, count in zip(curves, counts, strict=True))
        assert found == pytest.approx(best)


def test_a_layer_that_is_not_needed_gives_its_states_away() -> None:
    assert allocate([{1: 5.0, 4: 1.0, 8: 0.0}, {1: 0.1, 8: 0.0}], 9) == [8, 1]


def test_a_curve_that_wavers_is_read_by_its_hull() -> None:
    wavering = {1: 4.0, 2: 4.5, 4: 1.0, 8: 0.0}
    assert allocate([wavering, {1: 1.0, 8: 0.0}], 5) == [4, 1]


def test_the_fewest_stay_even_if_they_are_too_many() -> None:
    assert allocate([{3: 1.0, 5: 0.0}, {2: 1.0, 4: 0.0}], 4) == [3, 2]
