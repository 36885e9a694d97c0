"""The S5 kernel discretises poles as the method does."""

from __future__ import annotations

import numpy as np
import pytest

from aireprune.kernels.numba.s5_codes import METHODS
from aireprune.kernels.numba.s5_weights import discrete_pole
from aireprune.method.discretize import DISCRETIZE


@pytest.mark.parametrize("method", DISCRETIZE)
def test_poles_are_discretised_as_the_method_does(method):
    """Ordinary poles, ones near zero where the quotient cancels, zero, one that bilinear makes zero, unstable ones."""
    rng = np.random.default_rng(0)
    poles = -np.exp(rng.uniform(-20, 3, 200)) + 1j * rng.uniform(-40, 40, 200) * np.exp(rng.uniform(-20, 0, 200))
    poles = np.concatenate([poles, [0, -2, 2e-4j, 0.3 + 0.2j, -1e3]])
    steps = np.concatenate([np.exp(rng.uniform(-9, 1, 200)), np.ones(5)])
    expected = np.transpose(DISCRETIZE[method](poles, steps))
    found = [
        discrete_pole(pole.real, pole.imag, step, METHODS.index(method))
        for pole, step in zip(poles, steps, strict=True)
    ]
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-12, atol=1e-300)
