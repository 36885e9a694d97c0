# mypy: ignore-errors
"""One token through a whole Mamba model. The memory holds, of every layer, inputs (taps - 1, D) and states (N, D)."""

from __future__ import annotations

from numba import njit, prange

from aireprune.kernels.numba.compile import FAST, keep_apart, kernel
from aireprune.kernels.numba.decode_codes import BLOCK
from aireprune.kernels.numba.decode_products import product
from aireprune.kernels.numba.decode_rows import answer, convolve, embed, gather, rms, share
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.math import exp2, sigmoid, softplus


@kernel(parallel=True, error_model="numpy")
def decode(token, models, layers, kind, small, memory, own, sums, factors, gates, xz, logits):
    """Token -> logits (vocabulary,); the memory is brought up to date.

    models (1,), layers (layers,): records. small: the weights that are not in matrices. Scratch: own (parts, ..), sums
    (parts, features), factors (parts,), gates (parts, ..), and xz (2, the most channels) for x and the gate.
    """
    parts, features = models[0].parts, models[0].features
    for number in range(layers.shape[0]):
        for part in prange(parts):
            register = flush_denormals()
            z = own[part, :features]
            if number == 0:
                embed(models[0], kind, token, z)
            else:
                gather(z, sums, factors, small[layers[number - 1].outer_bias_at :])
            _before_scan(layers[number], kind, part, parts, small, memory, z, own[part, features:], gates[part], xz)
            restore_denormals(register)
        for part in prange(parts):
            register = flush_denormals()
            _after_scan(layers[number], kind, part, parts, small, memory, own[part, features:], gates, xz, sums[part])
            factors[part] = 1
            restore_denormals(register)
    for part in prange(parts):
        register = flush_denormals()
        z = own[part, :features]
        gather(z, sums, factors, small[layers[layers.shape[0] - 1].outer_bias_at :])
        answer(models[0], kind, part, small, z, own[part, features : 2 * features], logits)
        restore_denormals(register)


@njit(fastmath=FAST, error_model="numpy")
def _before_scan(layer, kind, part, parts, small, memory, z, room, gates, xz):
    """The part's channels of x and of the gate, and what they add to dt's low rank, B and C."""
    keep_apart()
    features, d = z.shape[0], layer.channels
    first, last = share(d, part, parts, BLOCK)
    count = last - first
    normed, u = room[:features], room[features : features + count]
    rms(z, small, layer.norm_at, normed)
    product(layer.inner, layer.inner_scale, kind, 2 * d, features, first, last, 0, normed, u)
    product(layer.inner, layer.inner_scale, kind, 2 * d, features, d + first, d + last, 0, normed, xz[1, first:last])
    for i in range(count):
        u[i] += small[layer.inner_bias_at + first + i]
        xz[1, first + i] += small[layer.inner_bias_at + d + first + i]
    x = xz[0, first:last]
    convolve(u, small, layer.conv_at, memory, layer.window_at, layer.taps, d, first, x)
    low = layer.rank + 2 * layer.states
    product(layer.x, layer.x_scale, kind, low, d, 0, low, first, x, gates)


@njit(fastmath=FAST, error_model="numpy")
def _after_scan(layer, kind, part, parts, small, memory, room, gates, xz, sums):
    """The scan of the part's channels, and what they add to the residual stream."""
    keep_apart()
    d, n, rank = layer.channels, layer.states, layer.rank
    first, last = share(d, part, parts, BLOCK)
    count = last - first
    low = room[: rank + 2 * n]
    for i in range(rank + 2 * n):
        low[i] = 0
    for other in range(parts):
        row = gates[other]
        for i in range(rank + 2 * n):
            low[i] += row[i]
    delta = room[rank + 2 * n :][:count]
    _steps(small, layer, low, first, delta)
    y = room[rank + 2 * n + count :][:count]
    _scan(small, layer, low[rank:], first, memory, xz[0, first:last], xz[1, first:last], delta, y)
    features = sums.shape[0]
    product(layer.outer, layer.outer_scale, kind, features, d, 0, features, first, y, sums)


@njit(fastmath=FAST, error_model="numpy")
def _steps(small, layer, low, first, delta):
    """delta = softplus(W low + bias); small holds W transposed, (rank, D)."""
    keep_apart()
    count, d = delta.shape[0], layer.channels
    bias = small[layer.dt_bias_at + first :]
    for i in range(count):
        delta[i] = bias[i]
    for r in range(layer.rank):
        weight, value = small[layer.dt_at + r * d + first :], low[r]
        for i in range(count):
            delta[i] += weight[i] * value
    for i in range(count):
        delta[i] = softplus(delta[i])


@njit(fastmath=FAST, error_model="numpy")
def _scan(small, layer, bc, first, memory, x, gate, delta, y):
    """y = (C h + D x) silu(gate) after h = exp(delta A) h + delta B x; small holds A log2(e), (N, D)."""
    keep_apart()
    count, d, n = x.shape[0], layer.channels, layer.states
    skip = small[layer.skip_at + first :]
    for i in range(count):
        y[i] = skip[i] * x[i]
    for state in range(n):
        b, c = bc[state], bc[n + state]
        pole, h = small[layer.poles_at + state * d + first :], memory[layer.state_at + state * d + first :]
        for i in range(count):
            new = exp2(delta[i] * pole[i]) * h[i] + delta[i] * x[i] * b
            h[i] = new
            y[i] += c * new
    for i in range(count):
        y[i] *= gate[i] * sigmoid(gate[i])
