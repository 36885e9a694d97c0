# mypy: ignore-errors
"""Numba kernels of what follows the scan of an S4D layer in training: GELU, mixing of channels, gate, residual, norm.

    g = first gelu(y)      [a | v] = W g + bias      s = z + second a sigmoid(v)      out = norm(s), or s

first, second: factors of the two dropouts, which hold for whole sequences. Steps are independent of each other, so a worker
takes chunks of them, of whichever sequence; the backward pass makes everything but y and z once more. What is a sum over
steps, a worker adds up over its chunks; which are whose depends only on the number of workers, so that the same number
gives the same bits.

Shapes: b batch, L time, h channels.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from aireprune.kernels.numba import norm_rows as of_norm
from aireprune.kernels.numba import s5_training_rows as of_rows
from aireprune.kernels.numba.compile import FAST, keep_apart, kernel
from aireprune.kernels.numba.constants import LOG2E
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.gemm import bias_row, gemm, outer, packed, padded
from aireprune.kernels.numba.math import exp2, normal_cdf

CHUNK = 96  # steps; a multiple of every tile's rows


def forward_room(length, h, itemsize):
    """Rows and widths of what a worker of `forward` works in: a chunk of g, and of what W makes of it."""
    rows = min(CHUNK, length)
    return (rows, h), (rows, int(padded(2 * h, itemsize)))


def backward_room(length, h, itemsize):
    """The same of `backward`: the two of `forward`, gradients of the latter, the slope of GELU, s, and a product."""
    rows = min(CHUNK, length)
    return (*forward_room(length, h, itemsize), (rows, 2 * h), (rows, h), (rows, h), (rows, int(padded(h, itemsize))))


def sums_room(h, itemsize):
    """Rows and widths of the sums of a worker of `backward`: dW, dbias, and the gradients of the norm's weight and bias."""
    return (2 * h, int(padded(h, itemsize))), (1, 2 * h), (1, h), (1, h)


@njit
def _chunk(number, length):
    """Of all sequences: whose a chunk is, its first row among the steps of all, how many it has."""
    chunks = (length + CHUNK - 1) // CHUNK
    s, at = number // chunks, number % chunks * CHUNK
    return s, s * length + at, min(CHUNK, length - at)


@njit(fastmath=FAST, error_model="numpy")
def _gelu(y, at, rows, first, g):
    """g = first y Phi(y)"""
    keep_apart()
    for r in range(rows):
        here, there = y[at + r], g[r]
        for i in range(here.shape[0]):
            there[i] = first[i] * here[i] * normal_cdf(here[i])


@njit(fastmath=FAST, error_model="numpy")
def _gelu_again(y, at, rows, first, g, slope):
    """g once more, and its derivative."""
    keep_apart()
    density, half = y.dtype.type(1 / math.sqrt(2 * math.pi)), y.dtype.type(-LOG2E / 2)
    for r in range(rows):
        here, there, steep = y[at + r], g[r], slope[r]
        for i in range(here.shape[0]):
            share = normal_cdf(here[i])
            there[i] = first[i] * here[i] * share
            steep[i] = first[i] * (share + here[i] * density * exp2(half * here[i] * here[i]))


@njit(fastmath=FAST)
def _times(product, slope, rows, dy, at):
    keep_apart()
    for r in range(rows):
        one, other, found = product[r], slope[r], dy[at + r]
        for i in range(found.shape[0]):
            found[i] = one[i] * other[i]


@njit
def _mix(z, at, rows, second, packed_w, bias, g, v, out, into):
    """s of a chunk into rows of `out` from `into` on; g must be there. The gate's sigmoid takes the place of v."""
    keep_apart()
    h, top = z.shape[1], np.int64(0)
    gemm(g, top, rows, packed_w, 2 * h, bias, v, top)
    of_rows.close((z, v, v, second, v, out), (at * h, top, h, top, h, into * h), rows, h)


@kernel(parallel=True)  # no fast-math: what it calls would inherit it, and Lanes must not be simplified
def forward(y, z, w, bias, factors, norm, eps, buffers, out):
    """y, z (b, L, h) -> out. w (2h, h), bias (2h,). norm: weight and bias (h,), or (0,) for none."""
    (batch, length, h), workers = y.shape, buffers[0].shape[0]
    rows_y, rows_z, rows_out = (
        y.reshape(batch * length, h), z.reshape(batch * length, h), out.reshape(batch * length, h),
    )  # fmt: skip
    packed_w, bias_w, small = packed(w), bias_row(bias), y.dtype.type(eps)
    jobs = batch * ((length + CHUNK - 1) // CHUNK)
    for worker in prange(workers):
        register = flush_denormals()
        g, v = buffers[0][worker], buffers[1][worker]
        for number in range(worker * jobs // workers, (worker + 1) * jobs // workers):
            s, at, rows = _chunk(number, length)
            _gelu(rows_y, at, rows, factors[0][s], g)
            _mix(rows_z, at, rows, factors[1][s], packed_w, bias_w, g, v, rows_out, at)
            if norm[0].shape[0]:
                of_norm.normalize(rows_out, at * h, norm[0], norm[1], small, rows, h)
        restore_denormals(register)


@kernel(parallel=True)
def backward(grad, y, z, w, bias, factors, norm, eps, buffers, sums, dy, dz):
    """Gradients of y and z from that of out; sums: see `sums_room`, zeros in the beginning."""
    (batch, length, h), workers = y.shape, sums[0].shape[0]
    rows_grad, rows_y, rows_z, rows_dy, rows_dz = (
        grad.reshape(batch * length, h), y.reshape(batch * length, h), z.reshape(batch * length, h),
        dy.reshape(batch * length, h), dz.reshape(batch * length, h),
    )  # fmt: skip
    packed_w, packed_back, bias_w, small = packed(w), packed(w.T.copy()), bias_row(bias), y.dtype.type(eps)
    nothing = np.zeros((1, buffers[5].shape[2]), y.dtype)
    jobs, top = batch * ((length + CHUNK - 1) // CHUNK), np.int64(0)
    for worker in prange(workers):
        register = flush_denormals()
        g, v, dv, slope, mixed, product = (
            buffers[0][worker], buffers[1][worker], buffers[2][worker], buffers[3][worker], buffers[4][worker],
            buffers[5][worker],
        )  # fmt: skip
        d_w, d_bias, of_weight, of_bias = sums[0][worker], sums[1][worker][0], sums[2][worker][0], sums[3][worker][0]
        for number in range(worker * jobs // workers, (worker + 1) * jobs // workers):
            s, at, rows = _chunk(number, length)
            here, second = at * h, factors[1][s]
            _gelu_again(rows_y, at, rows, factors[0][s], g, slope)
            _mix(rows_z, at, rows, second, packed_w, bias_w, g, v, mixed, top)
            if norm[0].shape[0]:
                of_norm.backward(rows_grad, here, mixed, norm[0], small, rows_dz, of_weight, of_bias, rows, h)
            else:
                of_rows.copy((rows_grad, rows_dz), (here, here), rows, h)
            arrays, places = (rows_dz, v, v, second, dv, dv, d_bias), (here, top, h, top, top, h, h)
            of_rows.close_backward(arrays, places, rows, h)
            of_rows.add_up((dv, d_bias), (top, top), rows, h)
            outer(dv, top, 2 * h, g, top, h, rows, d_w)
            gemm(dv, top, rows, packed_back, h, nothing, product, top)
            _times(product, slope, rows, rows_dy, at)
        restore_denormals(register)
