"""The walk through two models, with and without memory for their activations."""

from __future__ import annotations

import pytest
import torch
from small_models import MODELS, inputs

import aireprune
from aireprune.calibration.readout import calibrate


@pytest.mark.parametrize("name", MODELS)
def test_without_memory_the_result_is_the_same(name: str) -> None:
    full = MODELS[name]()
    reduced = aireprune.prune(full, ratio=0.5)
    kept, again = (calibrate(full, reduced, inputs(), memory=memory) for memory in (2**30, 0))
    for key, value in kept.state_dict().items():
        torch.testing.assert_close(again.state_dict()[key], value)
