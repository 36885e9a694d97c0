# mypy: ignore-errors
"""Numba kernel of a whole S5 block without gradients: states exist only for one chunk of time, in cache.

Shapes: b batch, L time, h features, P modes, d directions; [Re | Im] side by side in the last axis of 2P.

    u = z, or its rows normalised      x_t = lam x_{t-1} + b_bias + B u_t  (and backwards)      y = C x + skip u + shift
    g = gelu(y)      v = W g + w_bias      out = z + gated(y, g, v), or its rows normalised

A batch is worked off in groups of sequences, each sequence in chunks of CHUNK steps: first B u of every chunk and the
state that the chunk alone would end with, then the states that enter the chunks (a recurrence over chunks with
lam^CHUNK), then scan, readout, activation, gate and residual of every chunk. All chunks of a group are independent in
the first and the last step, so the threads are busy whatever the batch size, and B u, the only thing kept of the length
of a sequence, is computed once for both directions.
"""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.ops.denormals import flush_denormals, restore_denormals
from aireprune.ops.kernels import kernel
from aireprune.ops.numba_gemm import gemm, keep_apart, pack_panel, padded, panels
from aireprune.ops.numba_lanes import VECTOR_BYTES, Lanes
from aireprune.ops.numba_math import sigmoid
from aireprune.ops.numba_recurrence import recurrence

_FAST = {"contract", "reassoc", "nsz"}
CHUNK = 96  # steps; a multiple of every tile's rows
LAYER, GELU, HALF_GLU1, HALF_GLU2, FULL_GLU = range(5)  # activation
NO_NORM, PRE_BATCH, PRE_LAYER, POST_BATCH, POST_LAYER = range(5)  # a batch norm only multiplies and adds
_BUDGET = 2 << 20  # bytes of B u per thread that may be waiting for their readout, unless one sequence has more
_SQRT_8_OVER_PI = math.sqrt(8 / math.pi)


def forward(z, log_lam, factor, b, c, c_scale, d, activation, w, w_bias, norm, affine, eps, workers, out):
    """z (b, L, h) -> out (b, L, h). Logarithms of the discrete poles and the factors of B's rows (P,), complex128;
    b (P, h, 2); c: (h, P, 2) per direction; d (h,); w, w_bias: (h, h) and (h,) of each gate matrix; affine: what the
    norm multiplies by and adds, (h,) each, if there is one."""
    batch, length, h = z.shape
    p, directions = len(factor), len(c)
    scale, offset = affine or (np.ones(h, z.dtype), np.zeros(h, z.dtype))
    b_rows, c_rows = np.empty((2 * p, h), z.dtype), np.empty((h, directions * 2 * p), z.dtype)
    w_rows, w_constant = _stacked(w, (0, h), z.dtype), _stacked(w_bias, (0,), z.dtype)
    wide, narrow = _wide(2 * p, z), _wide(h, z)
    group = min(batch, max(1, workers * _BUDGET // max(length * wide * z.itemsize, 1)))
    matrices = (b_rows, c_rows, w_rows)
    packed, biases = [_wide(len(rows), z) * rows.shape[1] for rows in matrices], (wide, narrow, _wide(len(w_rows), z))
    bu, ends, *rest = _aligned(
        z.dtype,
        (group * length, wide),
        (group * -(-length // CHUNK), directions * 2 * p),
        *((count,) for count in packed),
        *((1, count) for count in biases),
        (workers, CHUNK, h if norm == PRE_LAYER else 0),
        (workers, CHUNK, directions * 2 * p),
        (workers, CHUNK, narrow),
        (workers, CHUNK, h),
        (workers, CHUNK, biases[-1]),
    )
    _turns(
        z.reshape(-1, h), batch, length, log_lam, factor, b, c[0], c[-1], c_scale, d, matrices, w_constant, tuple(rest[:3]),
        tuple(rest[3:6]), scale, offset, activation, norm, eps, bu, ends, tuple(rest[6:]), z.ctypes.data == out.ctypes.data,
        out.reshape(-1, h),
    )  # fmt: skip


def _stacked(parts, empty, dtype):
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(empty, dtype)


@njit(fastmath=_FAST)
def _input_row(b, i, factor, scale, offset, rows, bias):
    """Row i of b (P, h, 2) times its factor as rows i and P + i of [Re | Im] (2P, h), and what they make of
    u = scale v + offset: the rows that take v, and the constants."""
    keep_apart()
    p, h = b.shape[0], b.shape[1]
    factor_r, factor_i = b.dtype.type(factor[i].real), b.dtype.type(factor[i].imag)
    sum_r, sum_i = b.dtype.type(0), b.dtype.type(0)
    for j in range(h):
        r = factor_r * b[i, j, 0] - factor_i * b[i, j, 1]
        s = factor_r * b[i, j, 1] + factor_i * b[i, j, 0]
        sum_r += r * offset[j]
        sum_i += s * offset[j]
        rows[i, j] = r * scale[j]
        rows[p + i, j] = s * scale[j]
    bias[0, i], bias[0, p + i] = sum_r, sum_i


@njit(fastmath=_FAST)
def _readout_row(c, i, scale, column, rows):
    """Row i of c (h, P, 2) of one direction as columns [scale Re | -scale Im] of rows (h, ..) from `column` on."""
    keep_apart()
    p = c.shape[1]
    for j in range(p):
        rows[i, column + j] = scale * c[i, j, 0]
        rows[i, column + p + j] = -scale * c[i, j, 1]


def _aligned(dtype, *shapes):
    """Empty arrays that begin at a cache line each: a vector that straddles two lines is loaded twice."""
    line = 64 // dtype.itemsize
    starts = list(accumulate((-(-math.prod(shape) // line) * line for shape in shapes), initial=0))
    memory = np.empty(starts[-1] + line, dtype)
    memory = memory[-memory.ctypes.data % 64 // dtype.itemsize :]
    return [
        memory[start : start + math.prod(shape)].reshape(shape) for start, shape in zip(starts, shapes, strict=False)
    ]


def _wide(n, like):
    return int(padded(n, like.itemsize))


@kernel(parallel=True)  # what is compiled within inherits fast-math, which Lanes does not stand
def _turns(
    z, batch, length, log_lam, factor, b, c_forwards, c_backwards, c_scale, d, matrices, w_constant, packed, biases,
    scale, offset, activation, norm, eps, bu, ends, scratch, in_place, out,
):  # fmt: skip
    """Two turns for the weights, two for a group; z, out (b * L, h), bu (group * L, 2P), ends (group * chunks, d * 2P)."""
    us, xs, ys, gs, vs = scratch
    (b_rows, c_rows, w_rows), (packed_b, packed_c, packed_w), (bias_b, bias_c, bias_w) = matrices, packed, biases
    p, h, before = factor.shape[0], z.shape[1], norm in (PRE_BATCH, PRE_LAYER)
    workers, chunks, group = us.shape[0], (length + CHUNK - 1) // CHUNK, bu.shape[0] // length
    directions = ends.shape[1] // max(1, 2 * p)
    lr, li, power_r, power_i = np.empty(p, z.dtype), np.empty(p, z.dtype), np.empty(p, z.dtype), np.empty(p, z.dtype)
    for i in range(p):
        radius, angle = log_lam[i].real, log_lam[i].imag  # the radius of a pole at zero is -inf
        lr[i], li[i] = math.exp(radius) * math.cos(angle), math.exp(radius) * math.sin(angle)
        power_r[i] = math.exp(CHUNK * radius) * math.cos(CHUNK * angle)
        power_i[i] = math.exp(CHUNK * radius) * math.sin(CHUNK * angle)
    skip, to_b, add_b = d.copy(), np.ones(h, z.dtype), np.zeros(h, z.dtype)
    bias_b[0], bias_c[0], bias_w[0] = 0, 0, 0
    bias_w[0, : w_constant.shape[0]] = w_constant
    if before:
        to_b, add_b = scale, offset
        for j in range(h):
            skip[j] = d[j] * scale[j]
            bias_c[0, j] = d[j] * offset[j]
    in_b, in_c, in_w = panels(2 * p, z.itemsize), panels(h, z.itemsize), panels(w_rows.shape[0], z.itemsize)
    for turn in range(2 + 2 * ((batch + group - 1) // group)):
        base = max(turn - 2, 0) // 2 * group
        members = min(group, batch - base)
        if turn > 1 and turn % 2 == 1:
            for track in range(members * directions):
                _enter(ends, track // directions * chunks, chunks, power_r, power_i, track % directions)
        for worker in prange(workers):
            register = flush_denormals()
            if turn == 0:
                for i in range(worker * p // workers, (worker + 1) * p // workers):
                    _input_row(b, i, factor, to_b, add_b, b_rows, bias_b)
                for i in range(worker * h // workers, (worker + 1) * h // workers):
                    _readout_row(c_forwards, i, c_scale, 0, c_rows)
                    if directions == 2:
                        _readout_row(c_backwards, i, c_scale, 2 * p, c_rows)
            elif turn == 1:
                for number in range(worker, in_b + in_c + in_w, workers):
                    if number < in_b:
                        pack_panel(b_rows, number, packed_b)
                    elif number < in_b + in_c:
                        pack_panel(c_rows, number - in_b, packed_c)
                    else:
                        pack_panel(w_rows, number - in_b - in_c, packed_w)
            else:
                jobs = members * chunks
                for job in range(worker * jobs // workers, (worker + 1) * jobs // workers):
                    chunk = job % chunks
                    start, rows = job // chunks * length + chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
                    if turn % 2 == 0:
                        _drive(z, base * length + start, rows, norm, eps, packed_b, bias_b, lr, li, us[worker], bu, start,
                               ends, job)  # fmt: skip
                    else:
                        _respond(z, base * length + start, rows, norm, eps, packed_c, bias_c, packed_w, bias_w, lr, li,
                                 us[worker], bu, start, ends, job, xs[worker], ys[worker], gs[worker], vs[worker], skip,
                                 activation, scale, offset, in_place, out)  # fmt: skip
            restore_denormals(register)


@njit
def _drive(z, at, rows, norm, eps, packed, bias, lr, li, u, bu, start, ends, job):
    """B u of a chunk, and the state with which it ends when it starts from zero, in each direction."""
    keep_apart()
    width, top = 2 * lr.shape[0], np.int64(0)
    if norm == PRE_LAYER:
        _normalize(z, at, rows, eps, u, top)
        gemm(u, top, rows, packed, width, bias, bu, start)
    else:
        gemm(z, at, rows, packed, width, bias, bu, start)
    zero = np.zeros((1, width), z.dtype)
    for column in range(0, ends.shape[1], max(width, 1)):
        _scan(bu, start, rows, lr, li, column > 0, zero, top, ends, job * ends.shape[1] + column, top)


@njit
def _respond(
    z, at, rows, norm, eps, packed_c, bias_c, packed_w, bias_w, lr, li, u, bu, start, enters, job, x, y, g, v, skip,
    activation, scale, offset, in_place, out,
):  # fmt: skip
    """Scan, readout, activation, gate, residual and last norm of a chunk."""
    keep_apart()
    width, top = x.shape[1], np.int64(0)
    for column in range(0, width, max(2 * lr.shape[0], 1)):
        _scan(bu, start, rows, lr, li, column > 0, enters, job * width + column, x, column, width)
    gemm(x, top, rows, packed_c, z.shape[1], bias_c, y, top)
    if activation == LAYER:
        _skip(y, rows, skip, z, at, out)
        return
    if norm == PRE_LAYER:
        _normalize(z, at, rows, eps, u, top)
        _skip_and_gelu(y, rows, skip, u, top, g)
    else:
        _skip_and_gelu(y, rows, skip, z, at, g)
    gemm(g, top, rows, packed_w, bias_w.shape[1], bias_w, v, top)
    if not in_place:
        _copy(z, at, rows, out)
    _join(out, at, rows, y, g, v, activation)
    _finish(out, at, rows, norm, eps, scale, offset)


@njit(fastmath=_FAST)
def _enter(ends, first, chunks, power_r, power_i, direction):
    """From the state that each of a sequence's chunks alone ends with to the state that enters it, in place.

    Every chunk but the last is CHUNK steps long, and what enters the last one backwards is zero.
    """
    keep_apart()
    p = power_r.shape[0]
    re, im = np.zeros(p, ends.dtype), np.zeros(p, ends.dtype)
    for step in range(chunks):
        end = ends[first + (step if direction == 0 else chunks - 1 - step), direction * 2 * p :]
        for i in range(p):
            r = power_r[i] * re[i] - power_i[i] * im[i] + end[i]
            s = power_r[i] * im[i] + power_i[i] * re[i] + end[p + i]
            end[i] = re[i]
            end[p + i] = im[i]
            re[i] = r
            im[i] = s


@njit
def _scan(bu, first, rows, lr, li, backwards, state, state_at, x, x_at, x_stride):
    """The recurrence over a chunk of bu from the state that enters it, into x (rows from x_at on, x_stride apart)."""
    width, last = bu.shape[1], rows - 1
    v_at, v_stride = first * width, width
    if backwards:
        v_at, v_stride, x_at, x_stride = v_at + last * width, -width, x_at + last * x_stride, -x_stride
    recurrence(lr, li, state, state_at, bu, v_at, v_stride, rows, x, x_at, x_stride)


@njit(fastmath=_FAST)
def _normalize(z, first, rows, eps, u, u_first):
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
def _skip(y, rows, skip, u, first, out):
    """out = y + skip u; rows of u and out from `first` on."""
    keep_apart()
    h = skip.shape[0]
    vectors = h // (VECTOR_BYTES // y.itemsize)
    for r in range(rows):
        _skip_vectors(y, r * y.shape[1], u, (first + r) * h, skip, out, (first + r) * h, vectors)
        for i in range(vectors * (VECTOR_BYTES // y.itemsize), h):
            out[first + r, i] = y[r, i] + skip[i] * u[first + r, i]


@njit
def _skip_and_gelu(y, rows, skip, u, first, g):
    """y += skip u, g = gelu(y) in its tanh form: (1 + tanh(a)) / 2 = sigmoid(2a)."""
    keep_apart()
    h = skip.shape[0]
    vectors = h // (VECTOR_BYTES // y.itemsize)
    cube, factor = y.dtype.type(0.044715), y.dtype.type(_SQRT_8_OVER_PI)
    for r in range(rows):
        _gelu_vectors(y, r * y.shape[1], u, (first + r) * h, skip, g, r * h, vectors)
        for i in range(vectors * (VECTOR_BYTES // y.itemsize), h):
            value = y[r, i] + skip[i] * u[first + r, i]
            y[r, i] = value
            g[r, i] = value * sigmoid(factor * (value + cube * value * value * value))


@njit
def _copy(z, first, rows, out):
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
def _add_gated(out, first, rows, x, gate, column):
    """out += x sigmoid(gate), with the gate's columns from `column` on."""
    keep_apart()
    h = out.shape[1]
    vectors = h // (VECTOR_BYTES // out.itemsize)
    for r in range(rows):
        _gated_vectors(out, (first + r) * h, x, r * x.shape[1], gate, r * gate.shape[1] + column, vectors)
        for i in range(vectors * (VECTOR_BYTES // out.itemsize), h):
            out[first + r, i] += x[r, i] * sigmoid(gate[r, column + i])


@njit
def _join(out, first, rows, y, g, v, activation):
    """out += the gated activation."""
    if activation == HALF_GLU1:
        _add_gated(out, first, rows, g, v, 0)
    elif activation == HALF_GLU2:
        _add_gated(out, first, rows, y, v, 0)
    elif activation == FULL_GLU:
        _add_gated(out, first, rows, v, v, out.shape[1])
    else:
        for r in range(rows):
            for i in range(out.shape[1]):
                out[first + r, i] += g[r, i]


@njit(fastmath=_FAST)
def _finish(out, first, rows, norm, eps, scale, offset):
    keep_apart()
    if norm == POST_LAYER:
        _normalize(out, first, rows, eps, out, first)
    if norm in (POST_BATCH, POST_LAYER):
        for r in range(rows):
            row = out[first + r]
            for i in range(row.shape[0]):
                row[i] = row[i] * scale[i] + offset[i]
