"""The torch discretisation is the NumPy one, and has gradients at a zero pole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aireprune.method.discretize import DISCRETIZE
from aireprune.models.discretize import discretize


@pytest.mark.parametrize("method", DISCRETIZE)
def test_it_is_the_method(method):
    rng = np.random.default_rng(0)
    poles = -np.exp(rng.uniform(-15, 2, 50)) + 1j * rng.uniform(-30, 30, 50) * np.exp(rng.uniform(-15, 0, 50))
    poles, steps = np.append(poles, 0), np.append(np.exp(rng.uniform(-9, 0, 50)), 1)
    log_radius, angle, factor = DISCRETIZE[method](poles, steps)
    found = discretize(torch.from_numpy(poles), torch.from_numpy(steps), method)
    np.testing.assert_allclose(found[0].numpy(), np.exp(log_radius + 1j * angle), rtol=1e-12)
    np.testing.assert_allclose(found[1].numpy(), factor, rtol=1e-11)


@pytest.mark.parametrize("method", DISCRETIZE)
def test_gradients_at_a_zero_pole(method):
    pole = torch.zeros(1, dtype=torch.complex128, requires_grad=True)
    lam, factor = discretize(pole, torch.ones(1, dtype=torch.float64), method)
    for value, slope in ((lam, 1.0), (factor, 0.5)):  # e^z = 1 + z + ..., (e^z - 1)/z = 1 + z/2 + ...
        (gradient,) = torch.autograd.grad(value.real.sum(), pole, retain_graph=True)
        torch.testing.assert_close(gradient.real, torch.full((1,), slope, dtype=torch.float64))
