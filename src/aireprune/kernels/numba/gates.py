# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Numba kernels of GELU and of the gated linear unit in training: one pass over memory each, forwards and backwards."""

from __future__ import annotations

import numpy as np
from numba import prange

from aireprune.kernels.numba.compile import FAST, kernel
from aireprune.kernels.numba.constants import LOG2E
from aireprune.kernels.numba.math import exp2, normal_cdf, sigmoid

SPAN = 8192  # numbers of one job, about


@kernel(parallel=True, fastmath=FAST, error_model="numpy")
def gelu(x, out):
    """x and out flat: out = x Phi(x), Phi the distribution function of a normal variable."""
    for job in prange((x.shape[0] + SPAN - 1) // SPAN):
        here, there = x[job * SPAN : (job + 1) * SPAN], out[job * SPAN : (job + 1) * SPAN]
        for i in range(here.shape[0]):
            there[i] = here[i] * normal_cdf(here[i])


@kernel(parallel=True, fastmath=FAST, error_model="numpy")
def gelu_backward(x, g, out):
    """out = g (Phi(x) + x Phi'(x)); all flat."""
    density, half = x.dtype.type(1 / np.sqrt(2 * np.pi)), x.dtype.type(-LOG2E / 2)
    for job in prange((x.shape[0] + SPAN - 1) // SPAN):
        here, up, there = (
            x[job * SPAN : (job + 1) * SPAN], g[job * SPAN : (job + 1) * SPAN], out[job * SPAN : (job + 1) * SPAN],
        )  # fmt: skip
        for i in range(here.shape[0]):
            there[i] = up[i] * (normal_cdf(here[i]) + here[i] * density * exp2(half * here[i] * here[i]))


@kernel(parallel=True, fastmath=FAST, error_model="numpy")
def glu(x, out):
    """x (rows, 2 h), the parts [a | b], and out (rows, h): out = a sigmoid(b)."""
    rows, h = out.shape
    span = max(1, SPAN // max(h, 1))
    for job in prange((rows + span - 1) // span):
        for row in range(job * span, min((job + 1) * span, rows)):
            a, b, there = x[row, :h], x[row, h:], out[row]
            for i in range(h):
                there[i] = a[i] * sigmoid(b[i])


@kernel(parallel=True, fastmath=FAST, error_model="numpy")
def glu_backward(x, g, out):
    """out (rows, 2 h): the gradients of a and b."""
    rows, h = g.shape
    span = max(1, SPAN // max(h, 1))
    for job in prange((rows + span - 1) // span):
        for row in range(job * span, min((job + 1) * span, rows)):
            a, b, up, to_a, to_b = x[row, :h], x[row, h:], g[row], out[row, :h], out[row, h:]
            for i in range(h):
                to_a[i] = up[i] * sigmoid(b[i])
            for i in range(h):
                to_b[i] = to_a[i] * a[i] * (1 - sigmoid(b[i]))
