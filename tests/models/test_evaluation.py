"""A module is in evaluation mode for the time being, and its parts get their own modes back."""

from __future__ import annotations

import pytest
from torch import nn

from aireprune.models.evaluation import evaluation_mode


@pytest.fixture
def model():
    """In training mode, but for a frozen part whose own part is not frozen."""
    found = nn.Sequential(nn.Dropout(), nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)))
    found[1].training = found[1][0].training = False
    return found


def modes(model):
    return [part.training for part in model.modules()]


def test_every_part_gets_its_mode_back(model):
    before = modes(model)
    with evaluation_mode(model):
        assert modes(model) == [False] * 5
    assert modes(model) == before == [True, True, False, False, True]


def test_also_after_an_error(model):
    before = modes(model)
    with pytest.raises(ZeroDivisionError), evaluation_mode(model):
        1 / 0  # noqa: B018
    assert modes(model) == before
