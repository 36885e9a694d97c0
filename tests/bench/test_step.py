"""The measurements of a step run, at toy sizes; what is compared computes the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aireprune.bench.step import DENSE, FAMILIES, PRUNED, TORCH, StepSize, bench_step, pruned_size

SIZE = StepSize(features=8, states=8, layers=2, batch=2, kept=0.25)


@pytest.mark.parametrize("family", FAMILIES)
def test_step(family):
    found = bench_step((family,), SIZE, repeats=1)["families"][family]
    assert found["difference"] < 1e-4
    assert set(found["seconds"]) == {DENSE, PRUNED, TORCH}
    assert found["state bytes"][PRUNED] < found["state bytes"][DENSE]
    assert found["streams per second"][DENSE] == pytest.approx(2 / found["seconds"][DENSE])


def test_a_share_is_kept_and_at_least_a_pair():
    assert pruned_size(replace(SIZE, states=64)).states == 16
    assert pruned_size(replace(SIZE, kept=0.0)).states == 2
