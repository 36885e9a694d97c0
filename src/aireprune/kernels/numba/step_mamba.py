# mypy: ignore-errors
"""A Mamba layer with its norm and residual connection for a few rows.

A stream's memory holds the convolution's last inputs (k - 1, D) and the states (N, D); D is padded to whole vectors.
"""

from __future__ import annotations

from numba import njit

from aireprune.kernels.numba.compile import keep_apart
from aireprune.kernels.numba.lanes import VECTOR_BYTES
from aireprune.kernels.numba.selective import advance_gated
from aireprune.kernels.numba.step_codes import ROWS
from aireprune.kernels.numba.step_conv import convolve
from aireprune.kernels.numba.step_products import product
from aireprune.kernels.numba.step_rows import add, before, cut


@njit(error_model="numpy")  # no fast-math: Lanes.exp2 must not be simplified
def mamba_block(z, count, length, stream, model, layer, weights, places, memory, room):
    """In place: `length` rows of z for each of `count` streams from `stream` on."""
    keep_apart()
    rows, width, d, n = count * length, z.shape[1], layer.channels, layer.states
    u, xz = cut(room, 0, ROWS, width), cut(room, ROWS * width, ROWS, 2 * d)
    at = ROWS * (width + 2 * d)
    x, dt = cut(room, at, ROWS, d), cut(room, at + ROWS * d, ROWS, d)
    at += 2 * ROWS * d
    low, gates = cut(room, at, ROWS, layer.rank), cut(room, at + ROWS * layer.rank, ROWS, layer.gates_width)
    delta = room[at + ROWS * (layer.rank + layer.gates_width) :][:d]
    product(before(z, rows, model, weights, layer, u), 0, rows, weights, layer.in_at, 2 * d, xz)
    for s in range(count):
        window = cut(memory[stream + s], layer.window_at, layer.taps - 1, d)
        convolve(xz, s * length, length, 0, weights, layer.conv_at, window, x)
    product(x, 0, rows, weights, layer.x_at, layer.rank, low)
    product(x, 0, rows, weights, layer.gates_at, layer.gates_width, gates)
    product(low, 0, rows, weights, layer.dt_at, d, dt)
    bias, skip = weights[layer.dt_bias_at :], weights[layer.skip_at :]
    pole, b, c = weights[layer.poles_at :], room[at + ROWS * layer.rank :], room[at + ROWS * layer.rank + n :]
    for s in range(count):
        held = memory[stream + s, layer.state_at : layer.state_at + n * d]
        for row in range(s * length, (s + 1) * length):
            advance_gated(
                x, dt, dt, row * d, 0, xz, row * 2 * d + d, 0, bias, skip, delta, held, pole, b, c,
                row * layer.gates_width, n, d // (VECTOR_BYTES // z.itemsize),
            )  # fmt: skip
    product(dt, 0, rows, weights, layer.out_at, width, u)
    add(z, rows, u, layer.residual)
