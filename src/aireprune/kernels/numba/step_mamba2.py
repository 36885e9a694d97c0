# mypy: ignore-errors
"""A Mamba-2 layer with its norms and residual connection for a few rows.

H heads of P channels, G groups of N states. A stream's memory holds the convolution's last inputs and the states
(H, N, P). Channels, states of B and C, heads, and the channels of a head are padded to whole vectors, each by itself.
"""

from __future__ import annotations

import math

from numba import njit

from aireprune.kernels.numba.compile import FAST, keep_apart
from aireprune.kernels.numba.lanes import VECTOR_BYTES
from aireprune.kernels.numba.math import exp2, sigmoid, softplus
from aireprune.kernels.numba.ssd import tile_1, tile_8
from aireprune.kernels.numba.step_codes import ROWS
from aireprune.kernels.numba.step_conv import convolve
from aireprune.kernels.numba.step_products import product
from aireprune.kernels.numba.step_rows import add, before, cut


@njit(error_model="numpy")
def mamba2_block(z, count, length, stream, model, layer, weights, places, memory, room):
    """In place: `length` rows of z for each of `count` streams from `stream` on."""
    keep_apart()
    rows, width, d, values = count * length, z.shape[1], layer.width, layer.values_width
    channels = d + 2 * values
    u, zxbcdt = cut(room, 0, ROWS, width), cut(room, ROWS * width, ROWS, d + channels + layer.heads_width)
    at = ROWS * (width + d + channels + layer.heads_width)
    xbc, y = cut(room, at, ROWS, channels), cut(room, at + ROWS * channels, ROWS, d)
    at += ROWS * (channels + d)
    one, b = cut(room, at, ROWS, values), cut(room, at + ROWS * values, ROWS, layer.states_width)
    c = cut(room, at + ROWS * (values + layer.states_width), ROWS, layer.states_width)
    rest = room[at + ROWS * (values + 2 * layer.states_width) :]
    product(before(z, rows, model, weights, layer, u), 0, rows, weights, layer.in_at, zxbcdt.shape[1], zxbcdt)
    for s in range(count):
        window = cut(memory[stream + s], layer.window_at, layer.taps - 1, channels)
        convolve(zxbcdt, s * length, length, d, weights, layer.conv_at, window, xbc)
    _gates(xbc, d, rows, weights, layer.b_at, layer.projected, one, b)
    _gates(xbc, d + values, rows, weights, layer.c_at, layer.projected, one, c)
    for s in range(count):
        held = memory[stream + s, layer.state_at :]
        _scan(zxbcdt, xbc, b, c, s * length, length, weights, layer, held, rest, y)
    _gated_norm(y, zxbcdt, rows, weights, layer)
    product(y, 0, rows, weights, layer.out_at, width, u)
    add(z, rows, u, layer.residual)


@njit
def _gates(xbc, column, rows, weights, at, projected, values, out):
    """Columns of xbc from `column` on, through the layer's projection if it has one."""
    into = values if projected else out
    for r in range(rows):
        for i in range(into.shape[1]):
            into[r, i] = xbc[r, column + i]
    if projected:
        product(values, 0, rows, weights, at, out.shape[1], out)


@njit(fastmath=FAST, error_model="numpy")
def _scan(zxbcdt, xbc, b, c, first, length, weights, layer, held, room, y):
    """All heads over `length` rows from `first` on; weights at head_at: A log2(e), dt's bias and D, (heads_width,) each."""
    keep_apart()
    lanes, p, wide, n_states = VECTOR_BYTES // y.itemsize, layer.head, layer.head_width, layer.states
    dx, out, decay = cut(room, 0, ROWS, wide), cut(room, ROWS * wide, ROWS, wide), room[2 * ROWS * wide :][:ROWS]
    dt_at, stride = zxbcdt.shape[1] - layer.heads_width, b.shape[1]
    flat_b, flat_c = b.reshape(-1), c.reshape(-1)
    for head in range(layer.heads):
        pole = weights[layer.head_at + head]
        bias, skip = (
            weights[layer.head_at + layer.heads_width + head],
            weights[layer.head_at + 2 * layer.heads_width + head],
        )
        for t in range(length):
            delta = softplus(zxbcdt[first + t, dt_at + head] + bias)
            decay[t] = exp2(delta * pole)
            row = xbc[first + t]
            for i in range(p):
                dx[t, i] = delta * row[head * p + i]
                out[t, i] = skip * row[head * p + i]
            for i in range(p, wide):
                dx[t, i], out[t, i] = 0, 0
        at, n_at = head * n_states * wide, first * stride + head // (layer.heads // layer.groups) * n_states
        for column in range(0, wide, lanes):
            n = 0
            while n_states - n >= 8:
                tile_8(
                    held, at + n * wide + column, dx, out, column, wide, decay, flat_b, flat_c, n_at + n, stride, length
                )
                n += 8
            while n < n_states:
                tile_1(
                    held, at + n * wide + column, dx, out, column, wide, decay, flat_b, flat_c, n_at + n, stride, length
                )
                n += 1
        for t in range(length):
            for i in range(p):
                y[first + t, head * p + i] = out[t, i]


@njit(fastmath=FAST, error_model="numpy")
def _gated_norm(y, gate, rows, weights, layer):
    """y silu(gate), each group's channels to mean square 1, times a factor; weights at norm2_at: factors, then epsilon."""
    keep_apart()
    width, size = y.shape[1], layer.channels // layer.groups
    scale, eps = weights[layer.norm2_at : layer.norm2_at + width], weights[layer.norm2_at + width]
    for r in range(rows):
        row, by = y[r], gate[r]
        row[layer.channels :] = 0
        for i in range(layer.channels):
            row[i] *= by[i] * sigmoid(by[i])
        for group in range(layer.groups):
            part = row[group * size : (group + 1) * size]
            square = row.dtype.type(0)
            for i in range(size):
                square += part[i] * part[i]
            factor = row.dtype.type(1 / math.sqrt(square / size + eps))
            for i in range(size):
                part[i] *= factor * scale[group * size + i]
