"""Calibration inputs: where they come from, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import inputs

from aireprune import AireError
from aireprune.calibration.inputs import Inputs, read_inputs


def test_sources_of_inputs(tmp_path: Path) -> None:
    x = inputs(8)
    np.save(tmp_path / "a.npy", x[:5])
    np.savez(tmp_path / "b.npz", x=x[5:], y=np.zeros(3))
    np.testing.assert_array_equal(read_inputs(tmp_path, 7).values, x[:7])
    np.testing.assert_array_equal(read_inputs(x[..., 0], 3).values, x[:3, :, :1])
    assert read_inputs(np.zeros((2, 5), int)).values.dtype == np.int64
    split = Inputs(x)
    assert [split.held_out(number) for number in range(split.batches)] == [False, False, False, True]
    for wrong in (np.zeros((2, 3, 4, 5)), np.zeros((0, 4)), tmp_path / "nowhere", np.full((1, 4), np.nan)):
        with pytest.raises(AireError):
            read_inputs(wrong)


def test_going_through_inputs_ends() -> None:
    given = Inputs(inputs(10))
    assert sum(len(batch) for batch in given) == 10
    assert len(list(given)) == given.batches
    with pytest.raises(IndexError):
        given[given.batches]
