# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Numba kernels of an S5 block in training: everything between its matrix products and scans, one pass over memory each.

Arrays (b, L, h) unless said otherwise; scale, shift, d (h,): the norm as u = scale z + shift, and D; first, second (b, h):
the factors of the two dropouts, which hold for whole sequences. Sums over steps come per sequence, (b, h).

    y = C x + d u      g = first gelu(y)      a = W g + bias      out = z + second y sigmoid(a)
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from aireprune.kernels.numba.compile import FAST, kernel
from aireprune.kernels.numba.math import sigmoid

CUBIC = 0.044715
SLOPE = 2 * np.sqrt(2 / np.pi)  # gelu(y) = y sigmoid(SLOPE (y + CUBIC y^3)), the approximation by tanh


@njit(fastmath=FAST, inline="always")
def _gelu_gate(y, slope, cubic):
    return sigmoid(slope * (y + cubic * y * y * y))


@kernel(parallel=True, fastmath=FAST)
def moments(z, mean, square):
    """Of every sequence, (b, h): the mean over time and the sum of squared distances from it."""
    batch, length, h = z.shape
    for b in prange(batch):
        total = np.zeros(h, z.dtype)
        for t in range(length):
            for i in range(h):
                total[i] += z[b, t, i]
        for i in range(h):
            mean[b, i] = total[i] / length
            total[i] = 0
        for t in range(length):
            for i in range(h):
                away = z[b, t, i] - mean[b, i]
                total[i] += away * away
        for i in range(h):
            square[b, i] = total[i]


@kernel(parallel=True, fastmath=FAST)
def activate(z, scale, shift, d, first, y, g):
    """y holds C x, and d u is added to it; g becomes first gelu(y)."""
    batch, length, h = z.shape
    slope, cubic = z.dtype.type(SLOPE), z.dtype.type(CUBIC)
    direct, constant = scale * d, shift * d
    for b in prange(batch):
        for t in range(length):
            for i in range(h):
                value = y[b, t, i] + direct[i] * z[b, t, i] + constant[i]
                y[b, t, i] = value
                g[b, t, i] = first[b, i] * value * _gelu_gate(value, slope, cubic)


@kernel(parallel=True, fastmath=FAST)
def close(z, y, a, second, out):
    """out = z + second y sigmoid(a)."""
    batch, length, h = z.shape
    for b in prange(batch):
        for t in range(length):
            for i in range(h):
                out[b, t, i] = z[b, t, i] + second[b, i] * y[b, t, i] * sigmoid(a[b, t, i])


@kernel(parallel=True, fastmath=FAST)
def close_backward(grad, y, a, second, dy, da, dbias):
    """Of `close`: dy and da, and the sums of da, from the gradient of out."""
    batch, length, h = y.shape
    one = y.dtype.type(1)
    for b in prange(batch):
        total = np.zeros(h, y.dtype)
        for t in range(length):
            for i in range(h):
                gate = sigmoid(a[b, t, i])
                through = grad[b, t, i] * second[b, i] * gate
                dy[b, t, i] = through
                inside = through * y[b, t, i] * (one - gate)
                da[b, t, i] = inside
                total[i] += inside
        for i in range(h):
            dbias[b, i] = total[i]


@kernel(parallel=True, fastmath=FAST)
def activate_backward(dg, z, y, scale, shift, first, dy, dd):
    """Of `activate`: what came through g is added to dy; dd: the sums of dy u."""
    batch, length, h = y.shape
    slope, cubic, one = y.dtype.type(SLOPE), y.dtype.type(CUBIC), y.dtype.type(1)
    for b in prange(batch):
        total = np.zeros(h, y.dtype)
        for t in range(length):
            for i in range(h):
                value = y[b, t, i]
                gate = _gelu_gate(value, slope, cubic)
                steep = slope * value * (one + 3 * cubic * value * value)
                whole = dy[b, t, i] + dg[b, t, i] * first[b, i] * gate * (one + steep * (one - gate))
                dy[b, t, i] = whole
                total[i] += whole * (scale[i] * z[b, t, i] + shift[i])
        for i in range(h):
            dd[b, i] = total[i]


@kernel(parallel=True, fastmath=FAST)
def norm_sums(du, dy, z, d, mean, over):
    """d dy is added to du, the gradient of u; over[0], over[1] (b, h): sums of it and of it times (z - mean)."""
    batch, length, h = z.shape
    for b in prange(batch):
        plain = np.zeros(h, z.dtype)
        weighted = np.zeros(h, z.dtype)
        for t in range(length):
            for i in range(h):
                value = du[b, t, i] + d[i] * dy[b, t, i]
                du[b, t, i] = value
                plain[i] += value
                weighted[i] += value * (z[b, t, i] - mean[i])
        for i in range(h):
            over[0, b, i] = plain[i]
            over[1, b, i] = weighted[i]


@kernel(parallel=True, fastmath=FAST)
def norm_backward(grad, du, z, mean, scale, centre, tilt):
    """The gradient of z, in place of du: grad + scale du - centre - tilt (z - mean)."""
    batch, length, h = z.shape
    for b in prange(batch):
        for t in range(length):
            for i in range(h):
                about_mean = centre[i] + tilt[i] * (z[b, t, i] - mean[i])
                du[b, t, i] = grad[b, t, i] + scale[i] * du[b, t, i] - about_mean
