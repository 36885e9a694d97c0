"""A dropped feature is dropped for the whole sequence."""

from __future__ import annotations

import torch

from aireprune.models.dropout import TimeDropout


def test_whole_sequences_are_dropped_and_the_mean_stays():
    torch.manual_seed(0)
    drop, x = TimeDropout(0.25), torch.ones(50, 7, 40)
    y = drop(x)
    assert torch.equal(y, y[:, :1].expand_as(y))
    assert set(y.unique().tolist()) == {0.0, float(torch.tensor(1 / 0.75))}
    assert abs(float(y.mean()) - 1) < 0.05
    assert drop.eval()(x) is x
