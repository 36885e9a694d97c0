# mypy: ignore-errors
"""What the recurrent modes of all families share: inputs, norms, activations and answers of a few rows.

Rows are steps of streams, a stream's steps side by side. Every width is a number of whole vectors; what pads it is zero
in weights and rows alike.
"""

from __future__ import annotations

import math

from numba import njit

from aireprune.kernels.numba.compile import FAST, keep_apart
from aireprune.kernels.numba.constants import GELU_CUBE, GELU_SLOPE
from aireprune.kernels.numba.cpu import REGISTER_BYTES
from aireprune.kernels.numba.gemm import PANEL
from aireprune.kernels.numba.math import normal_cdf, sigmoid
from aireprune.kernels.numba.step_codes import FULL_GLU, GELU, HALF_GLU2, LAST, LAYER, NO_NORM, POOL, RMS, TOKENS
from aireprune.kernels.numba.step_products import product


@njit(inline="always")
def cut(room, at, rows, width):
    """A matrix (rows, width) out of a vector, from element `at` on."""
    return room[at : at + rows * width].reshape(rows, width)


@njit
def encode(x, tokens, first, rows, model, weights, z):
    """Rows of the model's input from row `first` on into z: x (.., inputs), or tokens (..,) if there are any."""
    if tokens.shape[0] == 0:
        product(x, first, rows, weights, model.encoder_at, model.width, z)
        return
    n, k, at = model.width, model.inputs, model.encoder_at
    panel = PANEL * (REGISTER_BYTES // z.itemsize)
    for r in range(rows):
        for column in range(0, n, panel):  # the token's column of the packed matrix, and the bias
            columns = min(panel, n - column)
            line, bias = at + column * k + tokens[first + r] * columns, at + n * k + column
            for j in range(columns):
                z[r, column + j] = weights[line + j] + weights[bias + j]


@njit
def are_known(tokens, inputs):
    """Whether all tokens are among the model's inputs."""
    known = True
    for token in tokens:
        known &= 0 <= token < inputs
    return known


@njit(fastmath=FAST, error_model="numpy")
def normalize(z, rows, features, kind, weights, at, out):
    """Rows of z normed into rows of out, which may be z; weights from `at` on: factors, shifts, then epsilon."""
    keep_apart()
    width = z.shape[1]
    scale, offset = weights[at : at + width], weights[at + width : at + 2 * width]
    eps = weights[at + 2 * width]
    for r in range(rows):
        row, into = z[r], out[r]
        mean, factor = row.dtype.type(0), row.dtype.type(1)
        if kind == LAYER:
            for i in range(features):
                mean += row[i]
            mean /= row.dtype.type(features)
        if kind in (LAYER, RMS):
            square = row.dtype.type(0)
            for i in range(features):
                square += (row[i] - mean) * (row[i] - mean)
            factor = row.dtype.type(1 / math.sqrt(square / features + eps))
        for i in range(width):
            into[i] = (row[i] - mean) * factor * scale[i] + offset[i]


@njit
def before(z, rows, model, weights, layer, u):
    """What a layer reads: rows of z, normed into u if the norm stands before the layer."""
    if layer.before == 0 or layer.norm == NO_NORM:
        return z
    normalize(z, rows, model.features, layer.norm, weights, layer.norm_at, u)
    return u


@njit
def after(z, rows, model, weights, layer):
    """The norm after the residual connection, if that is its place."""
    if layer.before == 0 and layer.norm != NO_NORM:
        normalize(z, rows, model.features, layer.norm, weights, layer.norm_at, z)


@njit(fastmath=FAST, error_model="numpy")
def skip_and_gelu(y, rows, skip, u, tanh, g):
    """y += skip u and g = gelu(y), by tanh or exact."""
    keep_apart()
    cube, slope = y.dtype.type(GELU_CUBE), y.dtype.type(GELU_SLOPE)
    for r in range(rows):
        row, source, into = y[r], u[r], g[r]
        if tanh:
            for i in range(row.shape[0]):
                value = row[i] + skip[i] * source[i]
                row[i] = value
                into[i] = value * sigmoid(slope * (value + cube * value * value * value))
        else:
            for i in range(row.shape[0]):
                value = row[i] + skip[i] * source[i]
                row[i] = value
                into[i] = value * normal_cdf(value)


@njit(fastmath=FAST, error_model="numpy")
def join(z, rows, y, g, v, activation):
    """z += the gated activation; v holds the products of the gates side by side, each as wide as z."""
    keep_apart()
    width = z.shape[1]
    for r in range(rows):
        out = z[r]
        if activation == GELU:
            for i in range(width):
                out[i] += g[r, i]
        elif activation == FULL_GLU:
            for i in range(width):
                out[i] += v[r, i] * sigmoid(v[r, width + i])
        elif activation == HALF_GLU2:
            for i in range(width):
                out[i] += y[r, i] * sigmoid(v[r, i])
        else:
            for i in range(width):
                out[i] += g[r, i] * sigmoid(v[r, i])


@njit(error_model="numpy")
def answer(z, count, length, stream, at, last, model, weights, pooled, seen, f, logits, out):
    """Bring what is pooled up to date by `length` steps of `count` streams from `stream` on, and answer.

    In mode tokens every row is answered, into rows of out from `at` on; else every stream is, at the chunk's last rows.
    """
    keep_apart()
    features = model.features
    for s in range(count):
        seen[stream + s] += length
        if model.mode == POOL:
            for t in range(length):
                for i in range(features):
                    pooled[stream + s, i] += z[s * length + t, i]
    if model.mode == TOKENS:
        _judge(z, count * length, model, weights, logits, out, at)
        return
    if not last:
        return
    for s in range(count):
        f[s] = 0
        for i in range(features):
            if model.mode == LAST:
                f[s, i] = z[s * length + length - 1, i]
            else:
                f[s, i] = pooled[stream + s, i] / seen[stream + s]
    _judge(f, count, model, weights, logits, out, stream)


@njit
def _judge(f, rows, model, weights, logits, out, at):
    """Norm and head of rows of features into rows of out from `at` on; f is overwritten."""
    if model.norm != NO_NORM:
        normalize(f, rows, model.features, model.norm, weights, model.norm_at, f)
    if model.answers_width == 0:
        for r in range(rows):
            for i in range(model.features):
                out[at + r, i] = f[r, i]
        return
    product(f, 0, rows, weights, model.head_at, model.answers_width, logits)
    for r in range(rows):
        for i in range(model.answers):
            out[at + r, i] = logits[r, i]


@njit(fastmath=FAST, error_model="numpy")
def add(z, rows, y, residual):
    """z += y, or z = y without a residual connection."""
    keep_apart()
    keep = z.dtype.type(residual)
    for r in range(rows):
        for i in range(z.shape[1]):
            z[r, i] = keep * z[r, i] + y[r, i]
