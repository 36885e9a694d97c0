# mypy: ignore-errors
"""The weights of an S5 block as its kernel takes them: discretised, with the norm before the layer folded in.

All of it is done on every call, so it has to be cheap: poles in one pass, rows of B and C spread over the threads.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from aireprune.kernels.numba.compile import FAST, keep_apart
from aireprune.kernels.numba.s5_codes import BILINEAR, DISCRETE, POST_BATCH, PRE_BATCH, PRE_LAYER


@njit(error_model="numpy")
def discrete_pole(re, im, step, method):
    """log|lam|, arg(lam) and the factor of a row of B: `aireprune.method.discretize` for a single pole.

    Discrete: re and im are log|lam| and arg(lam), and step is the factor.
    """
    if method == DISCRETE:
        return re, im, complex(step, 0.0)
    if method == BILINEAR:
        ar, ai = re * step / 2, im * step / 2
        square = (1 - ar) * (1 - ar) + ai * ai
        lam_r, lam_i = (1 - ar * ar - ai * ai) / square, 2 * ai / square
        factor = complex(step * (1 - ar) / square, step * ai / square)
        return math.log1p(4 * ar / square) / 2, math.atan2(lam_i, lam_r), factor
    x, y = re * step, im * step
    square = x * x + y * y
    if square < 1e-6:
        z = complex(x, y)
        return x, y, step * (1 + z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5))))
    half = math.sin(y / 2)
    grown_r, grown_i = math.expm1(x) * math.cos(y) - 2 * half * half, math.exp(x) * math.sin(y)  # lam - 1
    return x, y, complex(step * (grown_r * x + grown_i * y) / square, step * (grown_i * x - grown_r * y) / square)


@njit(error_model="numpy")
def discrete(poles, step_rescale, clip_at, method, steps):
    """Discrete poles, their powers over `steps` steps, (P,) each, and the factors of B's rows."""
    keep_apart()
    re, im, log_step = poles
    p = re.shape[0]
    lr, li, power_r, power_i = np.empty_like(re), np.empty_like(re), np.empty_like(re), np.empty_like(re)
    factor = np.empty(p, np.complex128)
    for i in range(p):
        clipped = clip_at if re[i] > clip_at else np.float64(re[i])
        step = step_rescale * math.exp(np.float64(log_step[i]))
        radius, angle, factor[i] = discrete_pole(clipped, np.float64(im[i]), step, method)
        lr[i], li[i] = math.exp(radius) * math.cos(angle), math.exp(radius) * math.sin(angle)  # the radius may be -inf
        power_r[i] = math.exp(steps * radius) * math.cos(steps * angle)
        power_i[i] = math.exp(steps * radius) * math.sin(steps * angle)
    return (lr, li), (power_r, power_i), factor


@njit(error_model="numpy")
def norm_factors(norm, weights, eps):
    """What the norm multiplies by and adds, (h,) each."""
    keep_apart()
    weight, bias, mean, variance = weights
    scale, offset = weight.copy(), bias.copy()
    if norm in (PRE_BATCH, POST_BATCH):
        for j in range(weight.shape[0]):
            scale[j] = weight[j] / np.sqrt(variance[j] + weight.dtype.type(eps))
            offset[j] = bias[j] - mean[j] * scale[j]
    return scale, offset


@njit
def constants(norm, factors, d, w_constant, widths):
    """What the norm before the layer adds to B's product, the skip weights, and the biases of the three products."""
    keep_apart()
    scale, offset = factors
    h = d.shape[0]
    to_b, add_b, skip = np.ones(h, d.dtype), np.zeros(h, d.dtype), d.copy()
    bias_b, bias_c = np.zeros((1, widths[0]), d.dtype), np.zeros((1, widths[1]), d.dtype)
    bias_w = np.zeros((1, widths[2]), d.dtype)
    for j in range(w_constant.shape[0]):
        bias_w[0, j] = w_constant[j]
    if norm in (PRE_BATCH, PRE_LAYER):
        for j in range(h):
            to_b[j], add_b[j] = scale[j], offset[j]
            skip[j] = d[j] * scale[j]
            bias_c[0, j] = d[j] * offset[j]
    return (to_b, add_b), skip, (bias_b, bias_c, bias_w)


@njit(fastmath=FAST)
def input_row(b, i, factor, scale, offset, rows, bias):
    """Row i of b (P, h, 2) times its factor as rows i and P + i of [Re | Im] (2P, h), and what they make of
    u = scale v + offset: the rows that take v, and the constants."""
    keep_apart()
    p, h = b.shape[0], b.shape[1]
    factor_r, factor_i = b.dtype.type(factor[i].real), b.dtype.type(factor[i].imag)
    sum_r, sum_i = b.dtype.type(0), b.dtype.type(0)
    for j in range(h):
        r = factor_r * b[i, j, 0] - factor_i * b[i, j, 1]
        s = factor_r * b[i, j, 1] + factor_i * b[i, j, 0]
        sum_r += r * offset[j]
        sum_i += s * offset[j]
        rows[i, j] = r * scale[j]
        rows[p + i, j] = s * scale[j]
    bias[0, i], bias[0, p + i] = sum_r, sum_i


@njit(fastmath=FAST)
def readout_row(c, i, scale, column, rows):
    """Row i of c (h, P, 2) of one direction as columns [scale Re | -scale Im] of rows (h, ..) from `column` on."""
    keep_apart()
    p = c.shape[1]
    for j in range(p):
        rows[i, column + j] = scale * c[i, j, 0]
        rows[i, column + p + j] = -scale * c[i, j, 1]
