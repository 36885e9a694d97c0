"""The recurrence in registers equals the recurrence step by step, for any number of modes."""

from __future__ import annotations

import numpy as np
import pytest

from aireprune.kernels.numba.recurrence import recurrence


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2, 3, 5, 8, 11, 16, 23, 40, 70])
def test_recurrence_from_a_state(p, dtype, backwards):
    rng, steps, width = np.random.default_rng(p), 7, 2 * p
    lam = (0.9 * np.exp(1j * rng.uniform(0, 3, p))).astype(np.result_type(dtype, np.complex64))
    v, state = rng.standard_normal((steps, width)).astype(dtype), rng.standard_normal((1, width)).astype(dtype)
    x, last = np.zeros_like(v), np.zeros_like(state)
    at, stride = ((steps - 1) * width, -width) if backwards else (0, width)
    recurrence(lam.real.copy(), lam.imag.copy(), state, 0, v, at, stride, steps, x, at, stride)
    recurrence(lam.real.copy(), lam.imag.copy(), state, 0, v, at, stride, steps, last, 0, 0)
    expected = state[0, :p] + 1j * state[0, p:]
    for t in range(steps)[::-1] if backwards else range(steps):
        expected = lam * expected + v[t, :p] + 1j * v[t, p:]
        np.testing.assert_allclose(x[t], np.concatenate([expected.real, expected.imag]), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(last[0], x[0 if backwards else -1])
