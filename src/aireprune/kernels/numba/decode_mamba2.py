# mypy: ignore-errors
"""One token through a whole Mamba-2 model, projected layers included.

The memory holds, of every layer, inputs (taps - 1, D + 2 values) and states (heads, P, N). The norm before the last
product of a layer is a factor for all channels of a group, so the product is taken without it and multiplied by it later.
"""

from __future__ import annotations

import math

from numba import njit, prange

from aireprune.kernels.numba.compile import FAST, keep_apart, kernel
from aireprune.kernels.numba.decode_codes import BLOCK
from aireprune.kernels.numba.decode_products import product
from aireprune.kernels.numba.decode_rows import answer, convolve, embed, gather, rms, share
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.math import exp2, sigmoid, softplus


@kernel(parallel=True, error_model="numpy")
def decode(token, models, layers, kind, small, memory, own, sums, squares, row, logits):
    """Token -> logits (vocabulary,); the memory is brought up to date.

    models (1,), layers (layers,): records. small: the weights that are not in matrices. Scratch: own (parts, ..), sums
    (parts, features), squares (parts,), and row, as wide as the widest first projection: gate, x, B, C, dt.
    """
    parts, features = models[0].parts, models[0].features
    for number in range(layers.shape[0]):
        for part in prange(parts):
            register = flush_denormals()
            z, room = own[part, :features], own[part, features:]
            if number == 0:
                embed(models[0], kind, token, z)
            else:
                _gather(layers[number - 1], small, z, sums, squares, room)
            _before_scan(layers[number], kind, part, parts, small, memory, z, room, row)
            restore_denormals(register)
        for part in prange(parts):
            register = flush_denormals()
            room = own[part, features:]
            squares[part] = _after_scan(layers[number], kind, part, parts, small, memory, room, row, sums[part])
            restore_denormals(register)
    for part in prange(parts):
        register = flush_denormals()
        z, room = own[part, :features], own[part, features:]
        _gather(layers[layers.shape[0] - 1], small, z, sums, squares, room)
        answer(models[0], kind, part, small, z, room[:features], logits)
        restore_denormals(register)


@njit
def _heads(layer, part, parts):
    """First and last of a part's heads, all of one group of the norm."""
    per_group, heads = parts // layer.norm_groups, layer.heads // layer.norm_groups
    first, last = share(heads, part % per_group, per_group, 1)
    offset = part // per_group * heads
    return offset + first, offset + last


@njit(error_model="numpy")
def _gather(layer, small, z, sums, squares, room):
    """The sums of all parts into z, each by the factor that its group's channels are normed with."""
    parts = squares.shape[0]
    per_group, size = parts // layer.norm_groups, layer.channels // layer.norm_groups
    eps = small[layer.norm2_at + layer.channels]
    for part in range(parts):
        first, square = part // per_group * per_group, z.dtype.type(0)
        for other in range(first, first + per_group):
            square += squares[other]
        room[part] = 1 / math.sqrt(square / size + eps)
    gather(z, sums, room[:parts], small[layer.outer_bias_at :])


@njit(fastmath=FAST, error_model="numpy")
def _project(layer, kind, first, last, small, normed, row):
    """Rows `first` to `last` of the first projection, into the same places of `row`."""
    keep_apart()
    width, features = 2 * (layer.channels + layer.values) + layer.heads, normed.shape[0]
    product(layer.inner, layer.inner_scale, kind, width, features, first, last, 0, normed, row[first:last])
    for i in range(first, last):
        row[i] += small[layer.inner_bias_at + i]


@njit
def _before_scan(layer, kind, part, parts, small, memory, z, room, row):
    """The gate, x and dt of the part's heads, and its share of B and C."""
    keep_apart()
    features, d, p, values = z.shape[0], layer.channels, layer.head, layer.values
    normed, out = room[:features], room[features:]
    rms(z, small, layer.norm_at, normed)
    head, end = _heads(layer, part, parts)
    first, last = share(2 * values, part, parts, BLOCK)
    dt = 2 * (d + values)
    _project(layer, kind, head * p, end * p, small, normed, row)
    _project(layer, kind, d + head * p, d + end * p, small, normed, row)
    _project(layer, kind, 2 * d + first, 2 * d + last, small, normed, row)
    _project(layer, kind, dt + head, dt + end, small, normed, row)
    _convolve(layer, small, memory, head * p, end * p, row, out)
    _convolve(layer, small, memory, d + first, d + last, row, out)


@njit
def _convolve(layer, small, memory, first, last, row, out):
    """The convolution of its channels `first` to `last`, in place."""
    at, channels = layer.channels, layer.channels + 2 * layer.values
    u, new = row[at + first : at + last], out[: last - first]
    convolve(u, small, layer.conv_at, memory, layer.window_at, layer.taps, channels, first, new)
    for i in range(last - first):
        u[i] = new[i]


@njit(fastmath=FAST, error_model="numpy")
def _after_scan(layer, kind, part, parts, small, memory, room, row, sums):
    """The scan of the part's heads, and what they add to the residual stream but for the norm; the sum of their squares."""
    keep_apart()
    d, p, n, values = layer.channels, layer.head, layer.states, layer.values
    head, end = _heads(layer, part, parts)
    first, count = head * p, (end - head) * p
    b, c, y = room[: layer.groups * n], room[layer.groups * n :], room[2 * layer.groups * n :][:count]
    _gates(layer, small, layer.b_at, row[2 * d :], b)
    _gates(layer, small, layer.c_at, row[2 * d + values :], c)
    for number in range(head, end):
        at = number // (layer.heads // layer.groups) * n
        out = y[(number - head) * p :][:p]
        _scan(layer, small, memory, number, row, b[at : at + n], c[at : at + n], out)
    gate, scale, square = row[first:], small[layer.norm2_at + first :], y.dtype.type(0)
    for i in range(count):
        value = y[i] * gate[i] * sigmoid(gate[i])
        square += value * value
        y[i] = value * scale[i]
    product(layer.outer, layer.outer_scale, kind, sums.shape[0], d, 0, sums.shape[0], first, y, sums)
    return square


@njit(fastmath=FAST, error_model="numpy")
def _gates(layer, small, at, values, out):
    """The gates of all groups, (groups N,): the values, or their projection by (groups N, values of a group)."""
    keep_apart()
    count, each = layer.groups * layer.states, layer.values // layer.groups
    for i in range(count):
        if not layer.projected:
            out[i] = values[i]
        else:
            weight, given, total = small[at + i * each :], values[i // layer.states * each :], out.dtype.type(0)
            for j in range(each):
                total += weight[j] * given[j]
            out[i] = total


@njit(fastmath=FAST, error_model="numpy")
def _scan(layer, small, memory, head, row, b, c, y):
    """y = C h + D x after h = exp(delta A) h + delta x B of one head; small: A log2(e), dt's bias and D, (heads,) each."""
    keep_apart()
    p, n, heads, d = layer.head, layer.states, layer.heads, layer.channels
    pole, bias, skip = (
        small[layer.head_at + head],
        small[layer.head_at + heads + head],
        small[layer.head_at + 2 * heads + head],
    )
    delta = softplus(row[2 * (d + layer.values) + head] + bias)
    decay = exp2(delta * pole)
    x = row[d + head * p :]
    for i in range(p):
        h = memory[layer.state_at + (head * p + i) * n :]
        driven, total = delta * x[i], y.dtype.type(0)
        for j in range(n):
            new = decay * h[j] + driven * b[j]
            h[j] = new
            total += new * c[j]
        y[i] = total + skip * x[i]
