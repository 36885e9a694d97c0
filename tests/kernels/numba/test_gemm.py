"""The product with packed weights equals NumPy's and writes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from aireprune.kernels.numba.gemm import gemm, outer, pack_panel, padded, panels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_product_with_packed_weights(dtype):
    rng = np.random.default_rng(0)
    for rows, k, n in ((1, 1, 1), (7, 5, 15), (13, 300, 17), (96, 33, 70), (25, 0, 9), (12, 130, 48)):
        a, w, bias = (rng.standard_normal(shape).astype(dtype) for shape in ((rows + 2, k), (n, k), n))
        wide = padded(n, a.itemsize)
        packed, out, padded_bias = (
            np.empty(wide * k, dtype),
            np.full((rows + 3, wide), 7, dtype),
            np.zeros((1, wide), dtype),
        )
        padded_bias[0, :n] = bias
        for number in range(panels(n, a.itemsize)):
            pack_panel(w, number, packed)
        gemm(a, 2, rows, packed, n, padded_bias, out, 1)
        np.testing.assert_allclose(out[1 : rows + 1, :n], a[2:] @ w.T + bias, rtol=1e-4, atol=1e-4)
        assert (out[[0, -2, -1]] == 7).all()  # rows around the result are left alone


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_outer_products(dtype):
    rng = np.random.default_rng(0)
    for rows, m, n in ((1, 1, 1), (7, 5, 15), (13, 31, 17), (96, 33, 70), (0, 3, 9), (12, 0, 4), (20, 12, 48)):
        a, b = (rng.standard_normal((rows + 3, width)).astype(dtype) for width in (m, n))
        before = rng.standard_normal((m + 1, padded(n, a.itemsize))).astype(dtype)
        memory = np.full(b.size + 64, np.nan, dtype)  # what is behind b
        memory[: b.size] = b.ravel()
        out = before.copy()
        outer(a, 2, m, memory[: b.size].reshape(b.shape), 3, n, rows, out[:m])
        np.testing.assert_allclose(out[:m, :n], before[:m, :n] + a[2 : 2 + rows].T @ b[3:], rtol=1e-4, atol=1e-4)
        assert (out[m] == before[m]).all()
