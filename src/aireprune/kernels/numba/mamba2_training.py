# mypy: ignore-errors
"""Numba kernels of a Mamba-2 layer in training, between its two projections: sequence by sequence, in chunks of time.

    [z | x | B | C | dt] = u      v = conv([x | B | C])      y = scan(silu(v), dt) + D x      out = norm(y silu(z)) weight

Shapes: b batch, L time, H heads of P channels, G groups of N states, k taps; W = H P' + 2 G N' with heads and states filled
up to whole vectors. u (b, L, 2 H P + 2 G N + H). The forward pass keeps the states that enter chunks and y before the
skip; the backward pass makes everything else once more, chunk by chunk from the end. Nothing is copied from or joined to
parts of u outside of a chunk. What is a sum over sequences and steps, every sequence has of its own.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from aireprune.kernels.numba import rows as of_rows
from aireprune.kernels.numba.compile import keep_apart, kernel
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.ssd_chunks import (
    CHUNK,
    advance,
    decays,
    head_rooms,
    line,
    overlap,
    respond,
    retreat,
    room,
    settle,
    square_rooms,
    times,
)
from aireprune.kernels.numba.strided import whole


@njit
def _gather(u, sizes, first, rows, part, out, stride):
    """Rows of a sequence u (L, ..) from `first` on, zeros before its beginning, into flat rows of filled-up parts.

    sizes: H, P, G, N. part: 0 for z, 1 for [x | B | C].
    """
    keep_apart()
    heads, width, groups, n_states = sizes
    wide, padded, at = whole(width, u.itemsize), whole(n_states, u.itemsize), part * heads * width
    filled = wide == width and padded == n_states
    for i in range(rows):
        to = i * stride
        if first + i < 0:
            out[to : to + stride] = 0
            continue
        row = u[first + i]
        if filled:
            out[to : to + stride] = row[at : at + stride]
            continue
        for h in range(heads):
            out[to + h * wide : to + h * wide + width] = row[at + h * width : at + (h + 1) * width]
        if part:
            for g in range(2 * groups):
                here, there = at + heads * width + g * n_states, to + heads * wide + g * padded
                out[there : there + n_states] = row[here : here + n_states]


@njit
def _scatter(source, stride, sizes, first, rows, part, u):
    """The way back."""
    keep_apart()
    heads, width, groups, n_states = sizes
    wide, padded, at = whole(width, u.itemsize), whole(n_states, u.itemsize), part * heads * width
    filled = wide == width and padded == n_states
    for i in range(rows):
        to, row = i * stride, u[first + i]
        if filled:
            row[at : at + stride] = source[to : to + stride]
            continue
        for h in range(heads):
            row[at + h * width : at + (h + 1) * width] = source[to + h * wide : to + h * wide + width]
        if part:
            for g in range(2 * groups):
                here, there = at + heads * width + g * n_states, to + heads * wide + g * padded
                row[here : here + n_states] = source[there : there + n_states]


@njit
def _convolved(u, sizes, taps, shift, first, rows, inputs, act):
    """v of a chunk into act (T, W); inputs (T + k - 1, W) begins with the k - 1 rows before."""
    k, stride = taps.shape
    _gather(u, sizes, first - (k - 1), rows + k - 1, np.int64(1), inputs, stride)
    of_rows.convolve(inputs, 0, stride, taps, k, shift, act, 0, rows, stride)


@njit
def _raw_steps(u, heads, bias, first, rows, raw):
    at = u.shape[1] - heads
    for i in range(rows):
        row = u[first + i]
        for h in range(heads):
            raw[h, i] = row[at + h] + bias[h]


@kernel(parallel=True, error_model="numpy")  # no fast-math: what it calls would inherit it
def forward(u, sizes, taps, shift, pole, skip, bias, weight, eps, starts, answers, out):
    """u (b, L, ..) -> out (b, L, H P). taps (k, W), shift (W,); pole (H,) in powers of two; skip and weight (H P') by
    channel; bias (H,). Kept: starts (b, chunks + 1, G, N' R P'), zeros; answers (b, L H P').
    """
    for b in prange(u.shape[0]):
        register = flush_denormals()
        _forward_sequence(u[b], sizes, taps, shift, pole, skip, bias, weight, eps, starts[b], answers[b], out[b])
        restore_denormals(register)


@njit(error_model="numpy")
def _forward_sequence(u, sizes, taps, shift, pole, skip, bias, weight, eps, starts, answers, out):
    keep_apart()
    (heads, width, groups, n_states), length, dtype, (k, stride) = sizes, u.shape[0], u.dtype, taps.shape
    per_group, wide, padded = heads // groups, whole(width, u.itemsize), whole(n_states, u.itemsize)
    columns, channels = per_group * wide, heads * wide
    low, high = dtype.type(0), dtype.type(np.inf)
    inputs, act = line((CHUNK + k) * stride, u), line(CHUNK * stride, u)
    raw, factors, squares = room(heads, CHUNK, u), head_rooms(heads, u), square_rooms(padded, u)
    rooms = room(3, CHUNK * columns, u)
    driven, work, y = rooms[0], rooms[1], rooms[2]
    z, q, result = line(CHUNK * channels, u), line(channels, u), line(channels, u)
    for chunk in range(starts.shape[0] - 1):
        first, rows = chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
        _convolved(u, sizes, taps, shift, first, rows, inputs, act)
        of_rows.silu((act, act), (np.int64(0), np.int64(0)), (), rows * stride)
        _gather(u, sizes, first, rows, np.int64(0), z, channels)
        _raw_steps(u, heads, bias, first, rows, raw)
        decays(raw, pole, low, high, rows, *factors)
        for g in range(groups):
            head, x_at, b_at, c_at = g * per_group, g * columns, channels + g * padded, channels + (groups + g) * padded
            before, after = starts[chunk, g], starts[chunk + 1, g]
            after[:] = before
            advance(act, stride, x_at, b_at, n_states, factors, head, per_group, wide, rows, after, driven, work)
            respond(
                act, stride, b_at, c_at, n_states, factors, head, per_group, wide, rows, before, driven, squares, work, y
            )  # fmt: skip
            for t in range(rows):
                at = g * columns
                _keep(y, t * columns, answers, (first + t) * channels + at, columns)
                of_rows.gate(
                    (y, skip, act, z, q), (t * columns, at, x_at + t * stride, t * channels + at, at), (), columns
                )  # fmt: skip
                mean = of_rows.dot(q, at, q, at, columns) / (per_group * width)
                of_rows.normalize((q, weight, result), (at, at, at), (dtype.type(1) / np.sqrt(mean + eps),), columns)
                for h in range(head, head + per_group):
                    out[first + t, h * width : (h + 1) * width] = result[h * wide : h * wide + width]


@njit
def _keep(source, at, target, to, count):
    of_rows.scale((source, target), (at, to), (source.dtype.type(1),), count)


@kernel(parallel=True, error_model="numpy")
def backward(
    u, sizes, taps, shift, pole, skip, bias, weight, eps, starts, answers, gout, gu, gtaps, gshift, gheads, gweight
):
    """The adjoint: gout (b, L, H P) -> gu like u; sums of every sequence, zeros at first: gtaps (b, k, W), gshift (b, W),
    gheads (b, 3, H) of poles, skips and biases, gweight (b, H P').
    """
    for b in prange(u.shape[0]):
        register = flush_denormals()
        _backward_sequence(
            u[b], sizes, taps, shift, pole, skip, bias, weight, eps, starts[b], answers[b], gout[b], gu[b],
            gtaps[b].reshape(-1), gshift[b], gheads[b], gweight[b],
        )  # fmt: skip
        restore_denormals(register)


@njit(error_model="numpy")
def _backward_sequence(
    u, sizes, taps, shift, pole, skip, bias, weight, eps, starts, answers, gout, gu, gtaps, gshift, gheads, gweight
):  # fmt: skip
    keep_apart()
    (heads, width, groups, n_states), length, dtype, (k, stride) = sizes, u.shape[0], u.dtype, taps.shape
    per_group, wide, padded = heads // groups, whole(width, u.itemsize), whole(n_states, u.itemsize)
    columns, channels, top = per_group * wide, heads * wide, np.int64(0)
    low, high = dtype.type(0), dtype.type(np.inf)
    inputs, act, slope = line((CHUNK + k) * stride, u), line(CHUNK * stride, u), line(CHUNK * stride, u)
    gact, ginputs, back = line((CHUNK + k) * stride, u), line(CHUNK * stride, u), room(k, stride, u)
    raw, graw, factors = room(heads, CHUNK, u), room(heads, CHUNK, u), head_rooms(heads, u)
    squares, late = square_rooms(padded, u), np.zeros(heads, dtype)
    rooms = room(7, CHUNK * columns, u)
    driven, g, y, gdriven = rooms[0], rooms[1], rooms[2], rooms[3]
    work = (rooms[4], rooms[5], rooms[6], line(columns * CHUNK, u))
    flips, gstates = (room(columns, padded, u), room(columns, padded, u)), room(groups, padded * columns, u)
    z, gz, single = line(CHUNK * channels, u), line(CHUNK * channels, u), room(5, channels, u)
    given, q, weighed, by_y, by_z = single[0], single[1], single[2], single[3], single[4]
    by_head, none = np.zeros(heads, dtype), np.zeros(stride, dtype)
    for h in range(heads):
        by_head[h] = skip[h * wide]
    for i in range(k):
        back[i] = taps[k - 1 - i]
    for chunk in range(starts.shape[0] - 2, -1, -1):
        first, rows = chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
        _convolved(u, sizes, taps, shift, first, rows, inputs, act)
        of_rows.silu_and_slope((act, slope), (top, top), (), rows * stride)
        _gather(u, sizes, first, rows, np.int64(0), z, channels)
        _raw_steps(u, heads, bias, first, rows, raw)
        decays(raw, pole, low, high, rows, *factors)
        for i in range(k - 1):  # the next chunk's first rows, which this one's last inputs have gone to
            gact[(rows + i) * stride : (rows + i + 1) * stride] = gact[i * stride : (i + 1) * stride]
        for group in range(groups):
            head, x_at, at = group * per_group, group * columns, group * columns
            b_at, c_at = channels + group * padded, channels + (groups + group) * padded
            for t in range(rows):
                for h in range(head, head + per_group):
                    given[h * wide : h * wide + width] = gout[first + t, h * width : (h + 1) * width]
                here, there, of_z = t * columns, x_at + t * stride, t * channels + at
                _keep(answers, (first + t) * channels + at, y, here, columns)
                of_rows.gate_again(
                    (y, skip, act, z, weight, given, q, weighed, by_y, by_z),
                    (here, at, there, of_z, at, at, at, at, at, at), (), columns,
                )  # fmt: skip
                r = dtype.type(1) / np.sqrt(of_rows.dot(q, at, q, at, columns) / (per_group * width) + eps)
                c = r * r * r * of_rows.dot(weighed, at, q, at, columns) / (per_group * width)
                of_rows.through_norm(
                    (q, weighed, given, by_y, by_z, g, gz, gweight), (at, at, at, at, at, here, of_z, at), (r, c), columns
                )  # fmt: skip
            times(factors[0], head, act, x_at, stride, rows, per_group, wide, driven)
            overlap(starts[chunk + 1, group], gstates[group], n_states, per_group, wide, late)
            retreat(
                act, stride, b_at, c_at, n_states, factors, head, per_group, wide, rows, starts[chunk, group], driven,
                squares, g, gstates[group], flips, work, gdriven, gact,
            )  # fmt: skip
            settle(
                act, x_at, stride, y, g, gdriven, factors, head, per_group, wide, rows, pole, by_head, raw, low, high, late,
                gheads, gact, graw,
            )  # fmt: skip
        of_rows.multiply((gact, slope, gact), (top, top, top), (), rows * stride)
        for i in range(k):
            of_rows.correlate(gact, 0, inputs, i * stride, stride, rows, gtaps, i * stride, stride)
        for t in range(rows):
            of_rows.add((gact, gshift), (t * stride, top), (), stride)
        of_rows.convolve(gact, 0, stride, back, k, none, ginputs, 0, rows, stride)
        _scatter(ginputs, stride, sizes, first, rows, np.int64(1), gu)
        _scatter(gz, channels, sizes, first, rows, np.int64(0), gu)
        for i in range(rows):
            to = gu[first + i]
            for h in range(heads):
                to[to.shape[0] - heads + h] = graw[h, i]
                gheads[2, h] += graw[h, i]
