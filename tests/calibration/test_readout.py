"""Calibrated readouts: closer to the full model, and nothing to do where nothing was removed."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from small_models import MODELS, distance, inputs

import aireprune
from aireprune.calibration.covariance import measured_covariances
from aireprune.calibration.damage import measured_scores
from aireprune.calibration.inputs import read_inputs
from aireprune.calibration.readout import calibrate
from aireprune.pruning.source import open_module


@pytest.mark.parametrize("name", MODELS)
def test_calibration_brings_the_model_closer(name: str) -> None:
    full = MODELS[name]()
    reduced = aireprune.prune(full, ratio=0.5)
    before = {key: value.clone() for key, value in reduced.state_dict().items()}
    fitted = calibrate(full, reduced, inputs())
    assert distance(full, fitted, inputs()) < distance(full, reduced, inputs())
    assert all(torch.equal(before[key], value) for key, value in reduced.state_dict().items())


@pytest.mark.parametrize("name", MODELS)
def test_at_ratio_zero_nothing_changes(name: str) -> None:
    full = MODELS[name]()
    fitted = calibrate(full, aireprune.prune(full, ratio=0.0), inputs())
    for key, value in full.state_dict().items():
        torch.testing.assert_close(fitted.state_dict()[key], value, rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", ["s5 two ways", "mamba"])
def test_models_keep_their_mode_even_after_a_bad_batch(name: str) -> None:
    full = MODELS[name]().train()
    full.get_submodule("layers.1").eval()
    before = [module.training for module in full.modules()]
    bad = read_inputs(inputs()[..., :1])
    measurement = (
        partial(measured_scores, full, bad, "damage")
        if name == "mamba"
        else partial(measured_covariances, full, open_module(full), bad)
    )
    with pytest.raises(RuntimeError):
        measurement()
    assert [module.training for module in full.modules()] == before
    reduced = aireprune.prune(full, ratio=0.5)
    with pytest.raises(RuntimeError):
        calibrate(full, reduced, bad)
    fitted = calibrate(full, reduced, inputs())
    assert [module.training for module in full.modules()] == before
    assert [module.training for module in fitted.modules()] == before
