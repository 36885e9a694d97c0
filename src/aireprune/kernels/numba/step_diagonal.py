# mypy: ignore-errors
"""A block of S5 or LRU for a few rows. A stream's memory holds [Re | Im] of the modes.

x_t = lam x_{t-1} + B u_t      y_t = C x_t + skip u_t      z_t + gated(y_t), normed before or after
"""

from __future__ import annotations

from numba import njit

from aireprune.kernels.numba.compile import keep_apart
from aireprune.kernels.numba.recurrence import recurrence
from aireprune.kernels.numba.step_codes import ROWS
from aireprune.kernels.numba.step_products import product
from aireprune.kernels.numba.step_rows import after, before, cut, join, skip_and_gelu


@njit(error_model="numpy")
def diagonal_block(z, count, length, stream, model, layer, weights, places, memory, room):
    """In place: `length` rows of z for each of `count` streams from `stream` on."""
    keep_apart()
    rows, width, p = count * length, z.shape[1], layer.modes
    size, gates = ROWS * width, layer.gates
    y, g, u = cut(room, 0, ROWS, width), cut(room, size, ROWS, width), cut(room, 2 * size, ROWS, width)
    v, x = cut(room, 3 * size, ROWS, gates * width), cut(room, (3 + gates) * size, ROWS, 2 * p)
    u = before(z, rows, model, weights, layer, u)
    product(u, 0, rows, weights, layer.b_at, 2 * p, x)
    lr, li = weights[layer.poles_at : layer.poles_at + p], weights[layer.poles_at + p : layer.poles_at + 2 * p]
    for s in range(count):
        held, first = memory[stream + s, layer.state_at : layer.state_at + 2 * p], s * length * 2 * p
        recurrence(lr, li, held, 0, x, first, 2 * p, length, x, first, 2 * p)
        held[:] = x[s * length + length - 1]
    product(x, 0, rows, weights, layer.c_at, width, y)
    skip_and_gelu(y, rows, weights[layer.skip_at : layer.skip_at + width], u, True, g)
    product(g, 0, rows, weights, layer.gate_at, gates * width, v)
    join(z, rows, y, g, v, layer.activation)
    after(z, rows, model, weights, layer)
