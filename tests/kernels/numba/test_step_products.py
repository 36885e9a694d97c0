"""Products of a few rows against NumPy, at every width of a panel."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from aireprune.kernels.numba.step_products import product
from aireprune.kernels.step import Weights


@njit
def call(a, first, rows, weights, at, n, out):
    product(a, first, rows, weights, at, n, out)


@pytest.mark.parametrize("rows", [1, 2, 3, 13])
@pytest.mark.parametrize(("n", "k"), [(5, 1), (16, 0), (33, 7), (60, 160), (130, 19), (0, 4)])
def test_any_size(rows, n, k):
    rng = np.random.default_rng(n + k)
    w, bias, a = (
        rng.standard_normal((n, k)),
        rng.standard_normal(n),
        rng.standard_normal((rows + 1, k)).astype(np.float32),
    )
    weights = Weights(np.dtype(np.float32))
    weights.add(np.ones(3))
    at = weights.product(w, bias, columns=None)
    out = np.full((rows, weights.width(n)), np.nan, np.float32)
    call(a, 1, rows, weights.all(), at, weights.width(n), out)
    np.testing.assert_allclose(out[:, :n], a[1:] @ w.T + bias, atol=1e-4)
    assert not out[:, n:].any()
