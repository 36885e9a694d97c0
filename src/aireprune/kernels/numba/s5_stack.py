# mypy: ignore-errors
"""Numba kernel of all blocks of an S5 model without gradients: each sequence passes every layer while it is in cache.

`aireprune.kernels.numba.s5` takes a whole batch through one block, which long sequences need: they fill the threads. Short
ones would leave the cache between two blocks. Here the weights are made ready once for many calls, no call is made
between blocks, tokens are looked up (the encoder's row and, for the first layer, what B makes of it), and of the last
block only the steps that count are put out. Each number is that of the other kernel, bit for bit: both call the same
functions on the same rows.

Shapes: b batch, L time, h features, P modes, d directions. The weights of a layer are one flat array, see `_parts`.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from aireprune.kernels.numba.compile import kernel
from aireprune.kernels.numba.constants import CACHE_LINE
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.gemm import pack_panel, padded, panels
from aireprune.kernels.numba.s5 import CHUNK, chunk_ends, drive, enter, lines, respond
from aireprune.kernels.numba.s5_codes import PRE_LAYER
from aireprune.kernels.numba.s5_weights import constants, discrete, input_row, norm_factors, readout_row


@njit
def _parts(p, h, directions, gates, itemsize):
    """Sizes: poles (re, im), their powers (re, im), B, C and gates, a bias behind each, skip, scale, offset."""
    of_b, of_c, of_w = padded(2 * p, itemsize), padded(h, itemsize), padded(gates, itemsize)
    return (p, p, p, p, of_b * h, of_b, of_c * directions * 2 * p, of_c, of_w * h, of_w, h, h, h)


@njit
def _starts(p, h, directions, gates, itemsize):
    """Where each part begins, at a cache line, and where the next layer would."""
    found, at = np.empty(14, np.int64), np.int64(0)
    found[0] = at
    for number, size in enumerate(_parts(p, h, directions, gates, itemsize)):
        at += lines(size, CACHE_LINE // itemsize)
        found[number + 1] = at
    return found


@kernel()
def weights_size(p, h, directions, gates, itemsize):
    """Numbers in the weights of a layer."""
    return _starts(p, h, directions, gates, itemsize)[13]


@kernel()
def make_ready(
    poles, step_rescale, clip_at, method, b, c_forwards, c_backwards, directions, c_scale, d, w_rows, w_constant,
    norm_weights, norm, eps, weights,
):  # fmt: skip
    """The weights of a block, as its parameters are now: discretised, with the norm folded in, packed."""
    p, h = b.shape[0], b.shape[1]
    gates, kind = w_rows.shape[0], b.itemsize
    at = _starts(p, h, directions, gates, kind)
    (lr, li), (power_r, power_i), factor = discrete(poles, step_rescale, clip_at, method, CHUNK)
    scale, offset = norm_factors(norm, norm_weights, eps)
    widths = padded(2 * p, kind), padded(h, kind), padded(gates, kind)
    (to_b, add_b), skip, (bias_b, bias_c, bias_w) = constants(norm, (scale, offset), d, w_constant, widths)
    b_rows, c_rows = np.empty((2 * p, h), b.dtype), np.empty((h, directions * 2 * p), b.dtype)
    for i in range(p):
        input_row(b, i, factor, to_b, add_b, b_rows, bias_b)
    for i in range(h):
        readout_row(c_forwards, i, c_scale, 0, c_rows)
        if directions == 2:
            readout_row(c_backwards, i, c_scale, 2 * p, c_rows)
    for number in range(panels(2 * p, kind)):
        pack_panel(b_rows, number, weights[at[4] :])
    for number in range(panels(h, kind)):
        pack_panel(c_rows, number, weights[at[6] :])
    for number in range(panels(gates, kind)):
        pack_panel(w_rows, number, weights[at[8] :])
    _put(lr, weights, at[0])
    _put(li, weights, at[1])
    _put(power_r, weights, at[2])
    _put(power_i, weights, at[3])
    _put(bias_b[0], weights, at[5])
    _put(bias_c[0], weights, at[7])
    _put(bias_w[0], weights, at[9])
    _put(skip, weights, at[10])
    _put(scale, weights, at[11])
    _put(offset, weights, at[12])


@njit
def _put(values, target, at):
    for i in range(values.shape[0]):
        target[at + i] = values[i]


@njit
def _rooms(length, words, p, h, directions, gates, norm, itemsize):
    """Sizes of what a thread works in, for layers of at most p modes: the sequence, B u, B u of the words, states that enter
    chunks, then a chunk of normalised inputs, of states, of y, of its GELU, of what the gates make of it."""
    chunks, states = (length + CHUNK - 1) // CHUNK, directions * 2 * p
    of_b, of_c, of_w = padded(2 * p, itemsize), padded(h, itemsize), padded(gates, itemsize)
    normed = CHUNK * h if norm == PRE_LAYER else 0
    return (
        length * h, length * of_b, words * of_b, chunks * states, normed, CHUNK * states, CHUNK * of_c, CHUNK * h,
        CHUNK * of_w,
    )  # fmt: skip


@kernel()
def room_size(length, words, p, h, directions, gates, norm, itemsize):
    """Numbers that a thread needs room for."""
    total = np.int64(0)
    for size in _rooms(length, words, p, h, directions, gates, norm, itemsize):
        total += lines(size, CACHE_LINE // itemsize)
    return total


@kernel(parallel=True)  # no fast-math: what it calls would inherit it, and Lanes must not be simplified
def stack(z, table, codes, lengths, weights, modes, directions, gates, activation, norm, eps, workers, room, out):
    """z (b, L, h), or codes (b, L) of rows of table (V, h) -> out (b, L, h).

    lengths (b,) or (0,): steps of out that are wanted; those behind them are zero. weights: of all layers, one after the
    other. room: a row for every worker.
    """
    batch, length = out.shape[:2]
    for worker in prange(workers):
        register = flush_denormals()
        for s in range(worker * batch // workers, (worker + 1) * batch // workers):
            first = s == worker * batch // workers
            wanted = min(max(lengths[s], 0), length) if lengths.shape[0] else length
            _sequence(z, table, codes, s, first, wanted, weights, modes, directions, gates, activation, norm, eps,
                      room[worker], out)  # fmt: skip
        restore_denormals(register)


@njit
def _sequence(
    z, table, codes, s, first, wanted, weights, modes, directions, gates, activation, norm, eps, room, out
):  # fmt: skip
    """One sequence through all layers. first: the words have not been driven through the first layer's B yet."""
    length, h = out.shape[1:]
    kind, looked_up = out.itemsize, codes.shape[0] > 0
    words = table.shape[0] if looked_up else 0
    chunks, line = (length + CHUNK - 1) // CHUNK, CACHE_LINE // kind
    most = 0
    for p in modes:
        most = max(most, p)
    sizes, at = _rooms(length, words, most, h, directions, gates, norm, kind), np.empty(10, np.int64)
    at[0] = 0
    for number, size in enumerate(sizes):
        at[number + 1] = at[number] + lines(size, line)
    now = room[: length * h].reshape(length, h)
    g = room[at[7] : at[7] + CHUNK * h].reshape(CHUNK, h)
    u = room[at[4] : at[4] + sizes[4]].reshape(sizes[4] // h, h)
    of_c, of_w = padded(h, kind), padded(gates, kind)
    y = room[at[6] : at[6] + CHUNK * of_c].reshape(CHUNK, of_c)
    v = room[at[8] : at[8] + CHUNK * of_w].reshape(CHUNK, of_w)
    if looked_up:
        for t in range(length):
            _copy_row(table, codes[s, t], now, t)
    else:
        for t in range(length):
            _copy_row(z[s], t, now, t)
    base = np.int64(0)
    for layer in range(modes.shape[0]):
        p = modes[layer]
        w = _starts(p, h, directions, gates, kind)
        w += base
        base = w[13]
        lr, li = weights[w[0] : w[0] + p], weights[w[1] : w[1] + p]
        of_b, states = padded(2 * p, kind), directions * 2 * p
        bu = room[at[1] : at[1] + length * of_b].reshape(length, of_b)
        enters = room[at[3] : at[3] + chunks * states].reshape(chunks, states)
        x = room[at[5] : at[5] + CHUNK * states].reshape(CHUNK, states)
        packed_b, bias_b = weights[w[4] : w[5]], weights[w[5] : w[5] + of_b].reshape(1, of_b)
        if layer == 0 and looked_up:
            driven = room[at[2] : at[2] + words * of_b].reshape(words, of_b)
            if first:
                for word in range(0, words, CHUNK):
                    drive(table, word, min(CHUNK, words - word), norm, eps, packed_b, bias_b, 2 * p, u, driven, word)
            for t in range(length):
                _copy_row(driven, codes[s, t], bu, t)
        else:
            for chunk in range(chunks):
                t = chunk * CHUNK
                drive(now, t, min(CHUNK, length - t), norm, eps, packed_b, bias_b, 2 * p, u, bu, t)
        if chunks == 1:
            enters[:] = 0
        else:
            for chunk in range(chunks):
                t = chunk * CHUNK
                chunk_ends(bu, t, min(CHUNK, length - t), lr, li, enters, chunk)
            for direction in range(directions):
                enter(enters, 0, chunks, weights[w[2] : w[2] + p], weights[w[3] : w[3] + p], direction)
        until = wanted if layer == modes.shape[0] - 1 else length
        for chunk in range((until + CHUNK - 1) // CHUNK):
            t = chunk * CHUNK
            respond(
                now, t, min(CHUNK, length - t), min(CHUNK, until - t), norm, eps, weights[w[6] : w[7]],
                weights[w[7] : w[7] + of_c].reshape(1, of_c), weights[w[8] : w[9]],
                weights[w[9] : w[9] + of_w].reshape(1, of_w), lr, li, u, bu, t, enters, chunk, x, y, g, v,
                weights[w[10] : w[10] + h], activation, weights[w[11] : w[11] + h], weights[w[12] : w[12] + h], True, now,
            )  # fmt: skip
    for t in range(wanted):
        _copy_row(now, t, out[s], t)
    out[s, wanted:] = 0


@njit
def _copy_row(source, row, target, at):
    for i in range(target.shape[1]):
        target[at, i] = source[row, i]
