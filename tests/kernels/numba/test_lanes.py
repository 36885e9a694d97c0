"""The functions of vectors equal NumPy's, by either way to powers of two."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit, types
from numba.extending import intrinsic
from scipy.special import expit

from aireprune.kernels.numba import lanes as numba_lanes
from aireprune.kernels.numba.lanes import Lanes, lane_count


def cubic(x):
    return np.sqrt(8 / np.pi) * (x + 0.044715 * x**3)


# each function, and the exponent whose rounding its relative error grows with
REFERENCES = {
    "exp2": (np.exp2, np.zeros_like),
    "softplus": (lambda x: np.logaddexp(0, x), np.abs),
    "silu": (lambda x: x * expit(x), np.abs),
    "gelu": (lambda x: x * expit(cubic(x)), lambda x: np.abs(cubic(x))),
}
WAYS = [
    False,
    pytest.param(True, marks=pytest.mark.skipif(not numba_lanes.SPLITS_EXPONENTS, reason="needs AVX-512 DQ")),
]


def compiled(name):
    @intrinsic
    def apply(typing_context, x, y, at):
        def codegen(context, builder, signature, args):
            v = Lanes(context, builder, x.dtype)
            value = getattr(v, name)(v.load(v.start(signature.args[0], args[0]), args[2]))
            v.store(value, v.start(signature.args[1], args[1]), args[2])
            return context.get_dummy_value()

        return types.void(x, y, types.intp), codegen

    @njit
    def run(x, y, step):
        for at in range(0, len(x), step):
            apply(x, y, at)

    return run


@pytest.mark.parametrize("splits", WAYS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", REFERENCES)
def test_functions_of_vectors(name, dtype, splits, monkeypatch):
    monkeypatch.setattr(numba_lanes, "SPLITS_EXPONENTS", splits)
    run, (reference, exponent) = compiled(name), REFERENCES[name]
    info = np.finfo(dtype)
    most = info.maxexp - 2 if name == "exp2" else 1e4
    x = np.concatenate([np.linspace(-30, 30, 4099), [0.0, -0.0, info.tiny, most, -most]]).astype(dtype)
    x = np.pad(x, (0, -len(x) % lane_count(dtype)))
    y = np.empty_like(x)
    run(x, y, lane_count(dtype))
    exact = x.astype(np.float64)
    expected = reference(exact)
    relative = info.eps * (5 + 2 * exponent(exact)) if dtype == np.float32 else 1e-14 * (1 + exponent(exact))
    assert (np.abs(y - expected) <= relative * np.abs(expected) + 4 * info.tiny * (1 + np.abs(exact))).all()
    x[::3] = np.nan
    run(x, y, lane_count(dtype))
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_sum_of_the_lanes(dtype):
    @intrinsic
    def total(typing_context, x):
        def codegen(context, builder, signature, args):
            v = Lanes(context, builder, x.dtype)
            return v.total(v.load(v.start(signature.args[0], args[0]), context.get_constant(types.intp, 0)))

        return x.dtype(x), codegen

    run = njit(lambda x: total(x))
    powers = 2.0 ** np.arange(lane_count(dtype))  # every lane counts once
    assert run(powers.astype(dtype)) == powers.sum()
