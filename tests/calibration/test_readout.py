"""Calibrated readouts: closer to the full model, and nothing to do where nothing was removed."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from small_models import MODELS, distance, inputs
from torch import nn

import aireprune
from aireprune.calibration import spill
from aireprune.calibration.covariance import measured_covariances
from aireprune.calibration.damage import measured_scores
from aireprune.calibration.inputs import read_inputs
from aireprune.calibration.readout import calibrate
from aireprune.calibration.spill import MEMORY
from aireprune.calibration.subject import find_subject
from aireprune.errors import AireError
from aireprune.pruning.source import open_module


def fitted_to(full: nn.Module, reduced: nn.Module, memory: int = MEMORY) -> nn.Module:
    given = read_inputs(inputs())
    return calibrate(find_subject(open_module(full), given), open_module(reduced), given, memory)


@pytest.mark.parametrize("name", MODELS)
def test_calibration_brings_the_model_closer(name: str) -> None:
    full = MODELS[name]()
    reduced = aireprune.prune(full, ratio=0.5)
    before = {key: value.clone() for key, value in reduced.state_dict().items()}
    fitted = fitted_to(full, reduced)
    assert distance(full, fitted, inputs()) < distance(full, reduced, inputs())
    assert all(torch.equal(before[key], value) for key, value in reduced.state_dict().items())


@pytest.mark.parametrize("name", MODELS)
def test_at_ratio_zero_nothing_changes(name: str) -> None:
    full = MODELS[name]()
    fitted = fitted_to(full, aireprune.prune(full, ratio=0.0))
    for key, value in full.state_dict().items():
        torch.testing.assert_close(fitted.state_dict()[key], value, rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", ["s5 two ways", "mamba"])
def test_models_keep_their_mode_even_after_a_bad_batch(name: str) -> None:
    full = MODELS[name]().train()
    full.get_submodule("layers.1").eval()
    before = [module.training for module in full.modules()]
    bad = read_inputs(inputs()[..., :1])
    subject = find_subject(open_module(full), read_inputs(inputs()))
    assert [module.training for module in full.modules()] == before
    measurement = (
        partial(measured_scores, subject, bad, "damage")
        if name == "mamba"
        else partial(measured_covariances, subject, bad)
    )
    with pytest.raises(RuntimeError):
        measurement()
    assert [module.training for module in full.modules()] == before
    reduced = aireprune.prune(full, ratio=0.5)
    with pytest.raises(RuntimeError):
        calibrate(subject, open_module(reduced), bad)
    fitted = fitted_to(full, reduced)
    assert [module.training for module in full.modules()] == before
    assert [module.training for module in fitted.modules()] == before


@pytest.mark.parametrize("name", MODELS)
def test_with_activations_in_files_the_result_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "SMALL", 0)
    full = MODELS[name]()
    reduced = aireprune.prune(full, ratio=0.5)
    kept, moved = (fitted_to(full, reduced, memory).state_dict() for memory in (MEMORY, 0))
    for key, value in kept.items():
        assert torch.equal(moved[key], value), key


def test_models_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(AireError, match="is not a reduction"):
        fitted_to(MODELS["s5"](), MODELS["s4d"]())
