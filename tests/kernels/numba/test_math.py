"""The functions that LLVM vectorises equal NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from scipy.special import expit, ndtr

from aireprune.kernels.numba.math import exp2, normal_cdf, sigmoid, softplus

REFERENCES = {exp2: np.exp2, softplus: lambda x: np.logaddexp(0, x), sigmoid: expit}


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-6), (np.float64, 1e-13)])
@pytest.mark.parametrize("function", REFERENCES, ids=lambda function: function.__name__)
def test_functions(function, dtype, tolerance):
    @njit(error_model="numpy")
    def run(x, y):
        for i in range(len(x)):
            y[i] = function(x[i])

    x = np.concatenate([np.linspace(-30, 30, 4099), [0.0, 80.0, -80.0]]).astype(dtype)
    y = np.empty_like(x)
    run(x, y)
    np.testing.assert_allclose(y, REFERENCES[function](x.astype(np.float64)), rtol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-7), (np.float64, 1e-15)])
def test_the_normal_distribution(dtype, tolerance):
    """Its error is absolute: 0.75e-7 of the formula, and what rounding adds."""

    @njit(error_model="numpy")
    def run(x, y):
        for i in range(len(x)):
            y[i] = normal_cdf(x[i])

    x = np.concatenate([np.linspace(-9, 9, 4099), [0.0, 80.0, -80.0]]).astype(dtype)
    y = np.empty_like(x)
    run(x, y)
    np.testing.assert_allclose(y, ndtr(x.astype(np.float64)), rtol=0, atol=tolerance)
