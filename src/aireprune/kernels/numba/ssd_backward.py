# mypy: ignore-errors
"""The adjoint of the Mamba-2 scan, in chunks of matrix products (`aireprune.kernels.numba.ssd_chunks`).

A thread takes one group of one sequence, because the heads of a group share B and C, a few heads at a time. The states that
enter every chunk come first, then chunk by chunk from the end.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from aireprune.kernels.numba.compile import keep_apart, kernel
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.ssd_chunks import (
    CHUNK,
    advance,
    decays,
    head_rooms,
    line,
    overlap,
    retreat,
    room,
    settle,
    square_rooms,
    times,
)
from aireprune.kernels.numba.strided import whole

COLUMNS = 256  # most channels at a time, unless a single head has more: their states and gradients stay in cache


@kernel(parallel=True, error_model="numpy")  # no fast-math: what it calls would inherit it
def ssd_backward(x, dt, A, B, C, D, bias, low, high, state, y, gy, gstate, gx, gdt, gA, gB, gC, gD):
    """Adjoint of `ssd_forward`. x, y, gy, gx (b, L, H, P); dt, gdt (b, L, H); A (H,) times log2(e); B, C, gB, gC
    (b, L, G, N); state (b, H, P, N) is the initial one.

    gstate (b, H, P, N) enters as the gradient of the final state and leaves as that of the initial one. gA, with respect
    to A times log2(e), and gD (b, H) are per sequence.
    """
    batch, groups, per_group = x.shape[0], B.shape[2], x.shape[2] // B.shape[2]
    at_once = max(1, min(per_group, COLUMNS // whole(x.shape[3], x.itemsize)))
    for job in prange(batch * groups):
        register = flush_denormals()
        b, group = job // groups, job % groups
        for first in range(0, per_group, at_once):
            head, end = group * per_group + first, group * per_group + min(first + at_once, per_group)
            _some_heads(
                x[b, :, head:end], dt[b, :, head:end], A[head:end], B[b, :, group], C[b, :, group], D[head:end],
                bias[head:end], low, high, state[b, head:end], y[b, :, head:end], gy[b, :, head:end], gstate[b, head:end],
                gx[b, :, head:end], gdt[b, :, head:end], gA[b, head:end], gB[b, :, group], gC[b, :, group], gD[b, head:end],
                first > 0,
            )  # fmt: skip
        restore_denormals(register)


@njit(error_model="numpy")
def _some_heads(x, dt, A, B, C, D, bias, low, high, state, y, gy, gstate, gx, gdt, gA, gB, gC, gD, add):
    """x, y, gy, gx (L, R, P); dt, gdt (L, R); B, C, gB, gC (L, N), to which is added if `add`; the others per head."""
    keep_apart()
    (length, heads, width), n_states, dtype = x.shape, B.shape[1], x.dtype
    wide, padded, chunks = whole(width, x.itemsize), whole(n_states, x.itemsize), (length + CHUNK - 1) // CHUNK
    columns = heads * wide
    b_at, c_at, stride, size = columns, columns + padded, columns + 2 * padded, padded * columns
    act, gact = line(CHUNK * stride, x), line(CHUNK * stride, x)
    raw, graw, factors = room(heads, CHUNK, x), room(heads, CHUNK, x), head_rooms(heads, x)
    late, sums = np.zeros(heads, dtype), np.zeros((2, heads), dtype)
    rooms = room(7, CHUNK * columns, x)
    driven, g, answer, gdriven = rooms[0], rooms[1], rooms[2], rooms[3]
    work = (rooms[4], rooms[5], rooms[6], line(columns * CHUNK, x))
    flips, squares = (room(columns, padded, x), room(columns, padded, x)), square_rooms(padded, x)
    starts, of_end = room(chunks + 1, size, x), line(size, x)
    _flip_states(state, wide, starts[0], True)
    _flip_states(gstate, wide, of_end, True)
    for sweep in range(2 * chunks):
        forwards = sweep < chunks
        k = sweep if forwards else 2 * chunks - 1 - sweep
        t, rows = k * CHUNK, min(CHUNK, length - k * CHUNK)
        for i in range(rows):
            _spread(x[t + i], wide, act, i * stride)
            act[i * stride + b_at : i * stride + b_at + n_states] = B[t + i]
            act[i * stride + c_at : i * stride + c_at + n_states] = C[t + i]
            for h in range(heads):
                raw[h, i] = dt[t + i, h] + bias[h]
        decays(raw, A, low, high, rows, *factors)
        if forwards:
            starts[k + 1] = starts[k]
            advance(act, stride, 0, b_at, n_states, factors, 0, heads, wide, rows, starts[k + 1], driven, g)
            continue
        overlap(starts[k + 1], of_end, n_states, heads, wide, late)
        times(factors[0], 0, act, 0, stride, rows, heads, wide, driven)
        for i in range(rows):
            _spread(gy[t + i], wide, g, i * columns)
            _spread(y[t + i], wide, answer, i * columns)
            _leave_out(D, x[t + i], wide, answer, i * columns)
        retreat(
            act, stride, b_at, c_at, n_states, factors, 0, heads, wide, rows, starts[k], driven, squares,
            g, of_end, flips, work, gdriven, gact,
        )  # fmt: skip
        settle(
            act, 0, stride, answer, g, gdriven, factors, 0, heads, wide, rows, A, D, raw, low, high, late, sums, gact, graw
        )  # fmt: skip
        for i in range(rows):
            at = i * stride
            for h in range(heads):
                gx[t + i, h] = gact[at + h * wide : at + h * wide + width]
                gdt[t + i, h] = graw[h, i]
            if add:
                gB[t + i] += gact[at + b_at : at + b_at + n_states]
                gC[t + i] += gact[at + c_at : at + c_at + n_states]
            else:
                gB[t + i] = gact[at + b_at : at + b_at + n_states]
                gC[t + i] = gact[at + c_at : at + c_at + n_states]
    _flip_states(gstate, wide, of_end, False)
    gA[:], gD[:] = sums[0], sums[1]


@njit
def _flip_states(state, wide, flat, there):
    """Between (R, P, N) and, flat, (N, R P')."""
    keep_apart()
    heads, width, n_states = state.shape
    for h in range(heads):
        for p in range(width):
            for n in range(n_states):
                if there:
                    flat[(n * heads + h) * wide + p] = state[h, p, n]
                else:
                    state[h, p, n] = flat[(n * heads + h) * wide + p]


@njit
def _spread(row, wide, flat, at):
    """row (R, P) into heads of P' columns each."""
    for h in range(row.shape[0]):
        flat[at + h * wide : at + h * wide + row.shape[1]] = row[h]


@njit
def _leave_out(D, row, wide, flat, at):
    """y without the skip."""
    for h in range(row.shape[0]):
        for p in range(row.shape[1]):
            flat[at + h * wide + p] -= D[h] * row[h, p]
