"""Calibration inputs: where they come from, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import inputs

from aireprune import AireError
from aireprune.calibration.inputs import ArrayInputs, held_out, read_inputs


def test_sources_of_inputs(tmp_path: Path) -> None:
    x = inputs(8)
    np.save(tmp_path / "a.npy", x[:5])
    np.savez(tmp_path / "b.npz", x=x[5:], y=np.zeros(3))
    np.testing.assert_array_equal(read_inputs(tmp_path, 7).values, x[:7])
    np.testing.assert_array_equal(read_inputs(x[..., 0], 3).values, x[:3, :, :1])
    assert read_inputs(np.zeros((2, 5), int)).values.dtype == np.int64
    split = ArrayInputs(x)
    assert [held_out(number) for number in range(split.batches)] == [False, False, False, True]
    for wrong in (np.zeros((2, 3, 4, 5)), np.zeros((0, 4)), tmp_path / "nowhere", np.full((1, 4), np.nan)):
        with pytest.raises(AireError):
            read_inputs(wrong)


def test_going_through_inputs_ends() -> None:
    given = ArrayInputs(inputs(10))
    assert sum(len(given[number].first) for number in range(given.batches)) == 10
    with pytest.raises(IndexError):
        given[given.batches]


def test_batches_are_what_the_model_takes() -> None:
    x = torch.from_numpy(inputs(10))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=2)
    forms: list[list[Any]] = [
        [x[:4], x[4:8], x[8:]],
        [(x[:5], None), (x[5:], None)],
        [{"x": x[:3], "lengths": torch.arange(3)}, {"x": x[3:], "lengths": torch.arange(7)}],
        [x.numpy()],
        loader,
    ]
    for form in forms:
        given = read_inputs(form)
        assert len(given) == 10
        assert given.batches >= 4, "one can be held out"
        torch.testing.assert_close(torch.cat([given[number].first for number in range(given.batches)]), x)
    lengths = read_inputs(forms[2])
    assert torch.cat([lengths[number].kwargs["lengths"] for number in range(lengths.batches)]).tolist() == [
        0,
        1,
        2,
        *range(7),
    ]
    assert len(read_inputs(forms[0], 7)) == 7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "is empty"),
        ([3], "batch 0 is a int"),
        ([torch.zeros(4, 5, 2), torch.full((4, 5, 2), float("nan"))], "batch 1 holds values that are not finite"),
        ([("a", "b")], "holds no tensor"),
        ({"x": torch.zeros(4, 5, 2)}, "a list of one"),
        (7, "not a int"),
    ],
)
def test_batches_that_nothing_can_be_done_with(given: Any, message: str) -> None:
    with pytest.raises(AireError, match=message):
        read_inputs(given)
