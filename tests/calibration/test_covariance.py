"""Measured covariances, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import LENGTH, MODELS, inputs

from aireprune.calibration.covariance import measured_covariances
from aireprune.calibration.inputs import read_inputs
from aireprune.calibration.subject import find_subject
from aireprune.families import FAMILIES
from aireprune.models.s5 import S5Model
from aireprune.pruning.source import open_module, open_source


@pytest.mark.parametrize("name", ["s5", "s5 two ways", "s4d"])
def test_measured_covariances_are_those_of_the_states(name: str) -> None:
    model = MODELS[name]()
    x = inputs(5)
    (layer, *_), source = open_source(model).layers, open_source(model)
    system = FAMILIES[layer.family].system(layer, source.arrays)  # type: ignore[attr-defined]
    seen: list[torch.Tensor] = []
    first = model.layers[0].seq if isinstance(model, S5Model) else model.s4_layers[0]
    handle = first.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    with torch.no_grad():
        model(torch.from_numpy(x))
    handle.remove()
    u = seen[0].numpy().astype(np.float64)
    total, tokens = 0.0, 0
    for direction in range(system.directions):
        run = u if direction == 0 else u[:, ::-1]
        state = np.zeros((len(x), *system.log_radius.shape), complex)
        for t in range(LENGTH):
            drive = run[:, t] @ system.b.T if not system.batch else run[:, t, :, None] * system.b[..., 0]
            state = system.lam * state + drive
            real = np.concatenate([state.real, state.imag], -1)
            total = total + np.einsum("b...i,b...j->...ij", real, real)
            tokens += len(x)
    measured = measured_covariances(find_subject(open_module(model), read_inputs(x)), read_inputs(x))[0]
    np.testing.assert_allclose(measured, total / tokens, rtol=1e-4, atol=1e-6 * np.abs(measured).max())
