# mypy: ignore-errors
"""What an S5 block does to the rows of a chunk besides products and scans: norms, skip, GELU, gate, residual.

Rows are taken in vectors; what does not fill one is left to plain loops.
"""

from __future__ import annotations

import math

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.compile import FAST, keep_apart
from aireprune.kernels.numba.constants import GELU_CUBE, GELU_SLOPE
from aireprune.kernels.numba.lanes import VECTOR_BYTES, Lanes
from aireprune.kernels.numba.math import sigmoid
from aireprune.kernels.numba.s5_codes import FULL_GLU, HALF_GLU1, HALF_GLU2, POST_BATCH, POST_LAYER


@njit(fastmath=FAST)
def normalize(z, first, rows, eps, u, u_first):
    """Rows of z to mean 0 and variance 1, into rows of u; both may be the same."""
    keep_apart()
    h = z.shape[1]
    for r in range(rows):
        row, target = z[first + r], u[u_first + r]
        mean = row.dtype.type(0)
        for i in range(h):
            mean += row[i]
        mean /= h
        square = row.dtype.type(0)
        for i in range(h):
            square += (row[i] - mean) * (row[i] - mean)
        factor = row.dtype.type(1 / math.sqrt(square / h + eps))
        for i in range(h):
            target[i] = (row[i] - mean) * factor


def _make_skip(active):
    """An intrinsic for `count` vectors from y_at, u_at and out_at on: out = y + skip u, or y += skip u, out = gelu(y)."""

    @intrinsic
    def vectors(typing_context, y, y_at, u, u_at, skip, out, out_at, count):
        def codegen(context, builder, signature, args):
            v = Lanes(context, builder, y.dtype)
            y_, u_, out_ = (v.start(signature.args[i], args[i], args[i + 1]) for i in (0, 2, 5))
            skip_ = v.start(signature.args[4], args[4])
            with cgutils.for_range(builder, args[-1]) as loop:
                at = v.index(loop.index, v.count, 0)
                value = v.add(v.mul(v.load(skip_, at), v.load(u_, at)), v.load(y_, at))
                if active:
                    v.store(value, y_, at)
                v.store(v.gelu(value) if active else value, out_, at)
            return context.get_dummy_value()

        i = types.intp
        return types.void(y, i, u, i, skip, out, i, i), codegen

    return vectors


_skip_vectors, _gelu_vectors = _make_skip(False), _make_skip(True)


@njit
def add_skip(y, rows, skip, u, first, out):
    """out = y + skip u; rows of u and out from `first` on."""
    keep_apart()
    h = skip.shape[0]
    vectors = h // (VECTOR_BYTES // y.itemsize)
    for r in range(rows):
        _skip_vectors(y, r * y.shape[1], u, (first + r) * h, skip, out, (first + r) * h, vectors)
        for i in range(vectors * (VECTOR_BYTES // y.itemsize), h):
            out[first + r, i] = y[r, i] + skip[i] * u[first + r, i]


@njit
def skip_and_gelu(y, rows, skip, u, first, g):
    """y += skip u, g = gelu(y) in its tanh form: (1 + tanh(a)) / 2 = sigmoid(2a)."""
    keep_apart()
    h = skip.shape[0]
    vectors = h // (VECTOR_BYTES // y.itemsize)
    cube, factor = y.dtype.type(GELU_CUBE), y.dtype.type(GELU_SLOPE)
    for r in range(rows):
        _gelu_vectors(y, r * y.shape[1], u, (first + r) * h, skip, g, r * h, vectors)
        for i in range(vectors * (VECTOR_BYTES // y.itemsize), h):
            value = y[r, i] + skip[i] * u[first + r, i]
            y[r, i] = value
            g[r, i] = value * sigmoid(factor * (value + cube * value * value * value))


@njit
def copy(z, first, rows, out):
    """Rows of z into the same rows of out, from `first` on."""
    keep_apart()
    for r in range(rows):
        for i in range(z.shape[1]):
            out[first + r, i] = z[first + r, i]


@intrinsic
def _gated_vectors(typing_context, out, out_at, x, x_at, gate, gate_at, count):
    """out += x sigmoid(gate) for `count` vectors from out_at, x_at and gate_at on."""

    def codegen(context, builder, signature, args):
        v = Lanes(context, builder, out.dtype)
        out_, x_, gate_ = (v.start(signature.args[i], args[i], args[i + 1]) for i in (0, 2, 4))
        with cgutils.for_range(builder, args[-1]) as loop:
            at = v.index(loop.index, v.count, 0)
            v.store(v.add(v.load(out_, at), v.gated(v.load(x_, at), v.load(gate_, at))), out_, at)
        return context.get_dummy_value()

    i = types.intp
    return types.void(out, i, x, i, gate, i, i), codegen


@njit
def add_gated(out, first, rows, x, gate, column):
    """out += x sigmoid(gate), with the gate's columns from `column` on."""
    keep_apart()
    h = out.shape[1]
    vectors = h // (VECTOR_BYTES // out.itemsize)
    for r in range(rows):
        _gated_vectors(out, (first + r) * h, x, r * x.shape[1], gate, r * gate.shape[1] + column, vectors)
        for i in range(vectors * (VECTOR_BYTES // out.itemsize), h):
            out[first + r, i] += x[r, i] * sigmoid(gate[r, column + i])


@njit
def join(out, first, rows, y, g, v, activation):
    """out += the gated activation."""
    if activation == HALF_GLU1:
        add_gated(out, first, rows, g, v, 0)
    elif activation == HALF_GLU2:
        add_gated(out, first, rows, y, v, 0)
    elif activation == FULL_GLU:
        add_gated(out, first, rows, v, v, out.shape[1])
    else:
        for r in range(rows):
            for i in range(out.shape[1]):
                out[first + r, i] += g[r, i]


@njit(fastmath=FAST)
def finish(out, first, rows, norm, eps, scale, offset):
    """The norm after the residual, if there is one, in place; of a batch norm only its scale and offset are left."""
    keep_apart()
    if norm == POST_LAYER:
        normalize(out, first, rows, eps, out, first)
    if norm in (POST_BATCH, POST_LAYER):
        for r in range(rows):
            row = out[first + r]
            for i in range(row.shape[0]):
                row[i] = row[i] * scale[i] + offset[i]
