# mypy: ignore-errors
"""exp2, softplus and SiLU that LLVM can vectorise: branch-free float32 polynomials, about 1e-7 relative error.

A call to libm would keep a loop scalar, and numba's vector library (SVML) is not on every machine. float64 goes to
libm: it serves tests, not speed. Nothing here relies on the order of roundings, because fast-math kernels inline it.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

from aireprune.kernels.numba.constants import LOG2E, interpolation


def _single(function, degree, low, high):
    """Coefficients of the interpolation in float32."""
    return [np.float32(c) for c in interpolation(function, degree, low, high)]


# 2^r on [-1/2, 1/2]
_C0, _C1, _C2, _C3, _C4, _C5 = _single(lambda r: 2.0**r, 5, -0.5, 0.5)
# atanh(s) / s as a polynomial in q = s^2, for s up to 1/3
_T0, _T1, _T2, _T3, _T4 = _single(lambda q: np.arctanh(np.sqrt(q)) / np.sqrt(q), 4, 0.0, 1 / 9)


@intrinsic
def _nearest(typing_context, value):
    """Round to the nearest integer, as a float32: one instruction that also vectorises."""

    def codegen(context, builder, signature, args):
        function = builder.module.declare_intrinsic("llvm.nearbyint", [ir.FloatType()])
        return builder.call(function, args)

    return types.float32(types.float32), codegen


@intrinsic
def _scale(typing_context, p, exponent):
    """p * 2^exponent for an integral float32 exponent, by adding it to the exponent bits of p."""

    def codegen(context, builder, signature, args):
        word = ir.IntType(32)
        shift = builder.shl(builder.fptosi(args[1], word), ir.Constant(word, 23))
        return builder.bitcast(builder.add(builder.bitcast(args[0], word), shift), ir.FloatType())

    return types.float32(types.float32, types.float32), codegen


@njit(error_model="numpy")
def _exp2_f32(u):
    u = max(u, np.float32(-126.0))
    whole = _nearest(u)
    r = u - whole
    return _scale(_C0 + r * (_C1 + r * (_C2 + r * (_C3 + r * (_C4 + r * _C5)))), whole)


def exp2(u):
    """2^u for u <= 127; a float32 result below 2^-126 comes out as 2^-126."""
    return 2.0**u


@overload(exp2)
def _exp2(u):
    if u == types.float32:
        return lambda u: _exp2_f32(u)
    return lambda u: math.exp(u * math.log(2.0))


def softplus(x):
    """log(1 + e^x) = max(x, 0) + log1p(e^-|x|), with log1p(t) = 2 atanh(t / (2 + t))."""
    return np.logaddexp(0, x)


@overload(softplus)
def _softplus(x):
    if x == types.float32:
        return lambda x: _softplus_f32(x)
    return lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(error_model="numpy")
def _softplus_f32(x):
    t = _exp2_f32(-abs(x) * np.float32(LOG2E))
    s = t / (np.float32(2) + t)
    q = s * s
    series = _T0 + q * (_T1 + q * (_T2 + q * (_T3 + q * _T4)))
    return max(x, np.float32(0)) + np.float32(2) * s * series


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@overload(sigmoid)
def _sigmoid(x):
    if x == types.float32:
        return lambda x: _sigmoid_f32(x)
    return lambda x: 1.0 / (1.0 + math.exp(-x))


@njit(error_model="numpy")
def _sigmoid_f32(x):
    return np.float32(1) / (np.float32(1) + _exp2_f32(min(-x * np.float32(LOG2E), np.float32(126))))


def normal_cdf(x):
    """(1 + erf(x / sqrt 2)) / 2, the factor of the exact GELU, to 1e-7 (Abramowitz and Stegun 7.1.26)."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


@overload(normal_cdf)
def _normal_cdf(x):
    if x == types.float32:
        return lambda x: _normal_cdf_f32(x)
    return lambda x: 0.5 * math.erfc(-x / math.sqrt(2.0))


_ERFC = [np.float32(c / 2) for c in (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)]
_E1, _E2, _E3, _E4, _E5 = _ERFC
_ERFC_SCALE = np.float32(0.3275911 / math.sqrt(2))


@njit(error_model="numpy")
def _normal_cdf_f32(x):
    t = np.float32(1) / (np.float32(1) + _ERFC_SCALE * abs(x))
    tail = t * (_E1 + t * (_E2 + t * (_E3 + t * (_E4 + t * _E5)))) * _exp2_f32(np.float32(-LOG2E / 2) * x * x)
    return tail if x < np.float32(0) else np.float32(1) - tail
