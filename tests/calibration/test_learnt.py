"""What is learnt and how fast, and what is held back."""

from __future__ import annotations

import pytest
import torch
from small_models import MODELS
from stranger_models import STRANGERS

from aireprune.calibration.learnt import Learnt
from aireprune.families.s5 import CLIP_EIGS_AT
from aireprune.pruning.source import open_module

ALL = {**MODELS, **STRANGERS}
SLOW = {
    "s5": {"Lambda_re", "Lambda_im", "log_step", "B"},
    "s4d": {"log_A_real", "A_imag", "log_dt"},
    "mamba": {"A_log", "bias"},
    "network": {"log_A_real", "A_imag", "log_dt", "nu_log", "theta_log", "gamma_log", "B_re", "B_im"},
    "s5-pytorch": {"Lambda", "log_step", "B"},
}
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # s5-pytorch uses it


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_is_learnt_once(name: str) -> None:
    model = ALL[name]()
    for parameter in list(model.parameters())[::2]:
        parameter.requires_grad_(False)
    learnt = Learnt(model, open_module(model).layers)
    found = [id(p) for group in learnt.optimizer().param_groups for p in group["params"]]
    assert sorted(found) == sorted(map(id, model.parameters()))
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("name", SLOW)
def test_poles_steps_and_input_rows_learn_more_slowly(name: str) -> None:
    model = ALL[name]()
    slow = {id(parameter) for parameter in Learnt(model, open_module(model).layers).dynamics}
    named = {key for key, parameter in model.named_parameters() if id(parameter) in slow}
    assert {key.rpartition(".")[2] for key in named} == SLOW[name]
    assert all("dt_proj" in key for key in named if key.endswith("bias"))


@pytest.mark.parametrize("name", ["s5", "s5-pytorch"])
def test_poles_stay_in_the_left_half_plane_unless_they_never_were(name: str) -> None:
    model = ALL[name]()
    layers = open_module(model).layers
    poles = [model.state_dict()[layer.arrays.get("Lambda_re", layer.arrays.get("Lambda", ""))] for layer in layers]
    for values in poles:
        values[0] = 0.5
    learnt = Learnt(model, layers)
    for values in poles:
        values += 1.0
    learnt.hold()
    for values in poles:
        assert float(values[0].real) == 0.5
        torch.testing.assert_close(values[1:].real, torch.full_like(values[1:].real, CLIP_EIGS_AT))


def test_entries_of_a_readout_that_are_zero_get_no_gradient() -> None:
    model = MODELS["s4d"]()
    layers = open_module(model).layers
    readout = model.get_parameter(layers[0].arrays["C"])
    with torch.no_grad():
        readout[1, 2] = 0
    Learnt(model, layers)
    model(torch.ones(1, 10, 2)).sum().backward()
    assert readout.grad is not None
    assert torch.equal(readout.grad[1, 2], torch.zeros(2))
    assert (readout.grad[..., 0] != 0).sum() == readout[..., 0].numel() - 1
