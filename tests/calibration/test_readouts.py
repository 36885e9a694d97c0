"""Readouts of linear layers: what is fitted must hold in single precision, whoever computes it."""

from __future__ import annotations

import math

import torch
from small_models import MODELS, inputs

from aireprune.calibration.readouts import fit_readout
from aireprune.pruning.source import open_module


def test_the_rounding_of_a_real_pole_is_not_a_feature() -> None:
    torch.manual_seed(0)
    model = MODELS["s4d"]()
    source = open_module(model)
    layer, tensors = source.layers[0], model.state_dict()
    angle, log_dt, readout = (tensors[layer.arrays[role]] for role in ("A_imag", "log_dt", "C"))
    angle[:, 0] = math.pi / log_dt.exp()  # negative real poles, but for rounding
    readout[..., 0, 1] = 0.0
    u = torch.randn(8, inputs().shape[1], len(log_dt))
    fit_readout(model, layer, [(u, torch.randn_like(u), False)], u.shape[0] * u.shape[1])
    assert readout[..., 0, :].abs().max() < 100
