# mypy: ignore-errors
"""Numba kernels of a Mamba layer in training, between its first and its last projection: sequence by sequence, in chunks.

    [x | z] = u    x' = silu(conv(x))    [r | B | C] = X x'    d = softplus(W r + bias)    out = scan(x', d, B, C) silu(z)

Shapes: b batch, L time, D channels, R rank of the steps, N states, k taps; D', R', N' are filled up to whole vectors. u
(b, L, 2D). The forward pass keeps the states that enter chunks; the backward pass makes everything else once more, chunk by
chunk from the end. What is a sum over sequences and steps, every sequence has of its own.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from aireprune.kernels.numba import rows as of_rows
from aireprune.kernels.numba.compile import keep_apart, kernel
from aireprune.kernels.numba.cpu import REGISTER_BYTES
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.selective_chunks import CHUNK, fall, rise, rise_and_keep
from aireprune.kernels.numba.ssd_chunks import line, room
from aireprune.kernels.numba.strided import FULL, product


@njit
def _gather(u, at, channels, first, rows, out, stride):
    """Columns at .. at + channels of rows of u (L, ..) from `first` on, zeros before its beginning, into rows of `out`."""
    keep_apart()
    for i in range(rows):
        if first + i < 0:
            out[i * stride : i * stride + channels] = 0
        else:
            out[i * stride : i * stride + channels] = u[first + i, at : at + channels]


@njit
def _scatter(source, stride, at, channels, first, rows, u):
    """The way back."""
    keep_apart()
    for i in range(rows):
        u[first + i, at : at + channels] = source[i * stride : i * stride + channels]


@njit
def _make_steps(act, weights, ranks, stride, apart, rows, gates, raw, delta):
    """[r | B | C] of a chunk from x', then the steps. weights: X^T (D', R' + 2 N'), W^T (R', D'), bias (D'), flat."""
    keep_apart()
    matrix, spread, bias = weights
    top = np.int64(0)
    product(act, 0, stride, 1, matrix, 0, apart, gates, 0, apart, rows, stride, apart, FULL, True)
    for t in range(rows):
        of_rows.scale((bias, raw), (top, t * stride), (bias.dtype.type(1),), stride)
    product(gates, 0, apart, 1, spread, 0, stride, raw, 0, stride, rows, ranks, stride, FULL, False)
    of_rows.softplus((raw, delta), (top, top), (), rows * stride)


@kernel(parallel=True, error_model="numpy")  # no fast-math: what it calls would inherit it
def forward(u, sizes, taps, shift, weights, pole, skip, starts, out):
    """u (b, L, 2D) -> out (b, L, D). sizes: D, R', N'. taps (k, D'), shift and skip (D',), pole (N' D',) in powers of two.

    Kept: starts (b, chunks, N' D').
    """
    for b in prange(u.shape[0]):
        register = flush_denormals()
        _forward_sequence(u[b], sizes, taps, shift, weights, pole, skip, starts[b], out[b])
        restore_denormals(register)


@njit(error_model="numpy")
def _forward_sequence(u, sizes, taps, shift, weights, pole, skip, starts, out):
    keep_apart()
    (channels, ranks, n), length, (k, stride) = sizes, u.shape[0], taps.shape
    lanes, apart, top = REGISTER_BYTES // u.itemsize, ranks + 2 * n, np.int64(0)
    inputs, act, raw, delta = (
        line((CHUNK + k) * stride, u),
        line(CHUNK * stride, u),
        line(CHUNK * stride, u),
        line(CHUNK * stride, u),
    )
    gates, z, y, held = line(CHUNK * apart, u), line(CHUNK * stride, u), line(CHUNK * stride, u), line(n * stride, u)
    for chunk in range(starts.shape[0]):
        first, rows = chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
        _gather(u, np.int64(0), channels, first - (k - 1), rows + k - 1, inputs, stride)
        of_rows.convolve(inputs, 0, stride, taps, k, shift, act, 0, rows, stride)
        of_rows.silu((act, act), (top, top), (), rows * stride)
        _make_steps(act, weights, ranks, stride, apart, rows, gates, raw, delta)
        _gather(u, channels, channels, first, rows, z, stride)
        starts[chunk] = held
        for column in range(0, stride, lanes):
            mine = held[n * column : n * (column + lanes)]
            rise(act, delta, skip, pole, gates, mine, mine, y, column, stride, ranks, ranks + n, apart, n, rows)
        of_rows.silu((z, z), (top, top), (), rows * stride)
        of_rows.multiply((y, z, y), (top, top, top), (), rows * stride)
        _scatter(y, stride, np.int64(0), channels, first, rows, out)


@kernel(parallel=True, error_model="numpy")
def backward(u, sizes, taps, shift, weights, back, pole, skip, starts, gout, gu, sums):
    """The adjoint: gout (b, L, D) -> gu like u. back: X (R' + 2 N', D') and W (D', R'), flat.

    sums of every sequence, zeros at first: of taps (b, k D'), shift, skip and bias (b, D'), poles (b, N' D'), X
    (b, (R' + 2 N') D') and W (b, D' R').
    """
    for b in prange(u.shape[0]):
        register = flush_denormals()
        of_taps, of_shift, of_skip, of_bias, of_pole, of_matrix, of_spread = sums
        mine = (of_taps[b], of_shift[b], of_skip[b], of_bias[b], of_pole[b], of_matrix[b], of_spread[b])
        _backward_sequence(u[b], sizes, taps, shift, weights, back, pole, skip, starts[b], gout[b], gu[b], mine)
        restore_denormals(register)


@njit(error_model="numpy")
def _backward_sequence(u, sizes, taps, shift, weights, back, pole, skip, starts, gout, gu, sums):
    keep_apart()
    (channels, ranks, n), length, (k, stride) = sizes, u.shape[0], taps.shape
    lanes, apart, top = REGISTER_BYTES // u.itemsize, ranks + 2 * n, np.int64(0)
    of_taps, of_shift, of_skip, of_bias, of_pole, of_matrix, of_spread = sums
    inputs, gact = line((CHUNK + k) * stride, u), line((CHUNK + k) * stride, u)
    rooms = room(10, CHUNK * stride, u)
    act, slope, raw, delta, z = rooms[0], rooms[1], rooms[2], rooms[3], rooms[4]
    y, up, g, graw, gz = rooms[5], rooms[6], rooms[7], rooms[8], rooms[9]
    gates, ggates, gstate = line(CHUNK * apart, u), line(CHUNK * apart, u), line(n * stride, u)
    held, decays = line((CHUNK + 1) * n * lanes, u), line(CHUNK * n * lanes, u)
    turned, none = room(k, stride, u), line(stride, u)
    for i in range(k):
        turned[i] = taps[k - 1 - i]
    for chunk in range(starts.shape[0] - 1, -1, -1):
        first, rows = chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
        count = rows * stride
        _gather(u, np.int64(0), channels, first - (k - 1), rows + k - 1, inputs, stride)
        of_rows.convolve(inputs, 0, stride, taps, k, shift, act, 0, rows, stride)
        of_rows.silu_and_slope((act, slope), (top, top), (), count)
        _make_steps(act, weights, ranks, stride, apart, rows, gates, raw, delta)
        _gather(u, channels, channels, first, rows, z, stride)
        _gather(gout, np.int64(0), channels, first, rows, up, stride)
        of_rows.silu_and_slope((z, gz), (top, top), (), count)
        of_rows.multiply((up, z, g), (top, top, top), (), count)
        ggates[: rows * apart] = 0
        for i in range(k - 1):  # the next chunk's first rows, which this one's last inputs have gone to
            gact[(rows + i) * stride : (rows + i + 1) * stride] = gact[i * stride : (i + 1) * stride]
        for column in range(0, stride, lanes):
            held[: n * lanes] = starts[chunk, n * column : n * (column + lanes)]
            rise_and_keep(
                act, delta, skip, pole, gates, held, decays, y, column, stride, ranks, ranks + n, apart, n, rows
            )
            fall(
                act, delta, raw, g, skip, pole, gates, held, decays, gstate, of_pole, of_skip, gact, graw, ggates,
                column, stride, ranks, ranks + n, apart, n, rows,
            )  # fmt: skip
        of_rows.multiply((gz, y, gz), (top, top, top), (), count)
        of_rows.multiply((gz, up, gz), (top, top, top), (), count)
        product(graw, 0, stride, 1, back[1], 0, ranks, ggates, 0, apart, rows, stride, ranks, FULL, True)
        product(graw, 0, 1, stride, gates, 0, apart, of_spread, 0, ranks, stride, rows, ranks, FULL, False)
        product(ggates, 0, apart, 1, back[0], 0, stride, gact, 0, stride, rows, apart, stride, FULL, False)
        product(ggates, 0, 1, apart, act, 0, stride, of_matrix, 0, stride, apart, rows, stride, FULL, False)
        of_rows.multiply((gact, slope, gact), (top, top, top), (), count)
        for i in range(k):
            of_rows.correlate(gact, 0, inputs, i * stride, stride, rows, of_taps, i * stride, stride)
        for t in range(rows):
            of_rows.add((gact, of_shift), (t * stride, top), (), stride)
            of_rows.add((graw, of_bias), (t * stride, top), (), stride)
        of_rows.convolve(gact, 0, stride, turned, k, none, y, 0, rows, stride)
        _scatter(y, stride, np.int64(0), channels, first, rows, gu)
        _scatter(gz, stride, channels, channels, first, rows, gu)
