# mypy: ignore-errors
"""A block of S4D for a few rows. A stream's memory holds (rows of modes, [Re, Im], lanes).

Modes are packed as for `aireprune.kernels.numba.s4d`: groups of W channels, silent modes left out.

    x_t = lam x_{t-1} + u_t      y_t = Re sum w x_t + skip u_t      z_t + glu(W gelu(y_t)), normed before or after
"""

from __future__ import annotations

from numba import njit

from aireprune.kernels.numba.compile import keep_apart
from aireprune.kernels.numba.lanes import VECTOR_BYTES
from aireprune.kernels.numba.s4d import advance_1, advance_2, advance_4
from aireprune.kernels.numba.step_codes import FULL_GLU, ROWS
from aireprune.kernels.numba.step_products import product
from aireprune.kernels.numba.step_rows import after, before, cut, join, skip_and_gelu


@njit(error_model="numpy")
def s4d_block(z, count, length, stream, model, layer, weights, places, memory, room):
    """In place: `length` rows of z for each of `count` streams from `stream` on.

    places: where every group's modes begin, (groups + 1,), then the channels of its lanes, (groups, W).
    """
    keep_apart()
    rows, width = count * length, z.shape[1]
    size, lanes = ROWS * width, VECTOR_BYTES // z.itemsize
    y, g, u = cut(room, 0, ROWS, width), cut(room, size, ROWS, width), cut(room, 2 * size, ROWS, width)
    v, now = cut(room, 3 * size, ROWS, 2 * width), cut(room, 5 * size, 2 * ROWS, lanes)
    u = before(z, rows, model, weights, layer, u)
    params = weights[layer.modes_at : layer.modes_at + 4 * lanes * layer.rows]
    start = places[layer.places_at : layer.places_at + layer.groups + 1]
    channels = places[layer.places_at + layer.groups + 1 :]
    for s in range(count):
        held = memory[stream + s, layer.state_at : layer.state_at + 2 * lanes * layer.rows]
        for group in range(layer.groups):
            channel = channels[group * lanes : (group + 1) * lanes]
            _respond(params, held, start[group], start[group + 1], u, y, s * length, length, channel, now)
    skip_and_gelu(y, rows, weights[layer.skip_at : layer.skip_at + width], u, False, g)
    product(g, 0, rows, weights, layer.mixing_at, 2 * width, v)
    join(z, rows, y, g, v, FULL_GLU)
    after(z, rows, model, weights, layer)


@njit(error_model="numpy")
def _respond(params, held, m, end, u, y, first, length, channel, now):
    """The modes of a group of channels over `length` rows of u from `first` on, into the same rows of y."""
    inputs, outputs = now[:ROWS], now[ROWS:]
    for t in range(length):
        row = u[first + t]
        for k in range(channel.shape[0]):
            inputs[t, k] = row[channel[k]]
            outputs[t, k] = 0
    while end - m >= 4:
        advance_4(params, held, inputs, outputs, m, length)
        m += 4
    if end - m >= 2:
        advance_2(params, held, inputs, outputs, m, length)
        m += 2
    if end > m:
        advance_1(params, held, inputs, outputs, m, length)
    for t in range(length):
        row = y[first + t]
        for k in range(channel.shape[0]):
            row[channel[k]] = outputs[t, k]
