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
from numba import njit, prange

from aireprune.ops.denormals import flush_denormals, restore_denormals
from aireprune.ops.numba_gemm import gemm, keep_apart, pack_panel, padded, panels
from aireprune.ops.numba_math import sigmoid
from aireprune.ops.numba_recurrence import recurrence

_FAST = {"contract", "reassoc", "nsz"}
CHUNK = 96  # steps; a multiple of every tile's rows
LAYER, GELU, HALF_GLU1, HALF_GLU2, FULL_GLU = range(5)  # activation
NO_NORM, PRE_AFFINE, PRE_LAYER, POST_AFFINE, POST_LAYER = range(5)  # affine: only multiplies and adds
_BUDGET = 8 << 20  # bytes of B u that may be waiting for their readout
_SQRT_8_OVER_PI = math.sqrt(8 / math.pi)


def forward(
    z, lr, li, factor_r, factor_i, b, c, c_scale, d, activation, w, w_bias, norm, scale, offset, eps, workers, out
):
    """z (b, L, h) -> out (b, L, h). Poles and the factors of B's rows (P,); b (P, h, 2); c: (h, P, 2) per direction;
    d (h,); w, w_bias: (h, h) and (h,) of each gate matrix; scale, offset (h,)."""
    batch, length, h = z.shape
    p, directions = len(lr), len(c)
    ones, zeros = np.ones(h, z.dtype), np.zeros(h, z.dtype)
    before = (scale, offset) if norm in (PRE_AFFINE, PRE_LAYER) else (ones, zeros)
    b_rows, b_bias = np.empty((2 * p, h), z.dtype), np.empty(2 * p, z.dtype)
    _input_rows(b, factor_r, factor_i, *before, b_rows, b_bias)
    c_rows = np.empty((h, directions * 2 * p), z.dtype)
    for number, matrix in enumerate(c):
        _readout_rows(matrix, c_scale, number * 2 * p, c_rows)
    w_rows = np.concatenate(w) if w else np.empty((0, h), z.dtype)
    gate_bias = _row(np.concatenate(w_bias) if w else zeros[:0])
    power = (lr.astype(np.complex128) + 1j * li) ** CHUNK
    chunks, wide = -(-length // CHUNK), _wide(2 * p, z)
    group = min(batch, max(1, _BUDGET // max(length * wide * z.itemsize * workers, 1)) * workers)

    matrices = (b_rows, c_rows, w_rows)
    bu, ends, *rest = _aligned(
        z.dtype,
        (group * length, wide),
        (group * chunks, directions * 2 * p),
        *((_wide(len(rows), z) * rows.shape[1],) for rows in matrices),
        (workers, CHUNK, h if norm == PRE_LAYER else 0),
        (workers, CHUNK, directions * 2 * p),
        (workers, CHUNK, _wide(h, z)),
        (workers, CHUNK, h),
        (workers, CHUNK, gate_bias.shape[1]),
    )
    _turns(
        z.reshape(-1, h), batch, length, lr, li, power.real.astype(lr.dtype), power.imag.astype(lr.dtype), matrices,
        tuple(rest[:3]), (_row(b_bias), _row(d * before[1]), gate_bias), d * before[0], scale, offset, activation, norm, eps,
        bu, ends, tuple(rest[3:]), z.ctypes.data == out.ctypes.data, out.reshape(-1, h),
    )  # fmt: skip


@njit(fastmath=_FAST, cache=True)
def _input_rows(b, factor_r, factor_i, scale, offset, rows, bias):
    """b (P, h, 2) times its factors as [Re | Im] rows (2P, h), and what they make of u = scale v + offset: the rows
    that take v, and the constant (2P,)."""
    p, h = b.shape[0], b.shape[1]
    for i in range(p):
        sum_r, sum_i = b.dtype.type(0), b.dtype.type(0)
        for j in range(h):
            r = factor_r[i] * b[i, j, 0] - factor_i[i] * b[i, j, 1]
            s = factor_r[i] * b[i, j, 1] + factor_i[i] * b[i, j, 0]
            sum_r += r * offset[j]
            sum_i += s * offset[j]
            rows[i, j] = r * scale[j]
            rows[p + i, j] = s * scale[j]
        bias[i], bias[p + i] = sum_r, sum_i


@njit(fastmath=_FAST, cache=True)
def _readout_rows(c, scale, column, rows):
    """c (h, P, 2) of one direction as columns [scale Re | -scale Im] of rows (h, ..) from `column` on."""
    h, p = c.shape[0], c.shape[1]
    for i in range(h):
        row = rows[i, column : column + 2 * p]
        for j in range(p):
            row[j] = scale * c[i, j, 0]
            row[p + j] = -scale * c[i, j, 1]


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


def _row(bias):
    row = np.zeros((1, _wide(len(bias), bias)), bias.dtype)
    row[0, : len(bias)] = bias
    return row


@njit(parallel=True, fastmath=_FAST, cache=True)
def _turns(
    z, batch, length, lr, li, power_r, power_i, matrices, packed, biases, skip, scale, offset, activation, norm, eps, bu,
    ends, scratch, in_place, out,
):  # fmt: skip
    """Pack the weights, then all groups; z, out (b * L, h), bu (group * L, 2P), ends (group * chunks, d * 2P)."""
    us, xs, ys, gs, vs = scratch
    (b, c, w), (packed_b, packed_c, packed_w), (bias_b, bias_c, bias_w) = matrices, packed, biases
    workers, chunks, group = us.shape[0], (length + CHUNK - 1) // CHUNK, bu.shape[0] // length
    directions = ends.shape[1] // max(1, 2 * lr.shape[0])
    in_b, in_c, in_w = panels(b.shape[0], z.itemsize), panels(c.shape[0], z.itemsize), panels(w.shape[0], z.itemsize)
    for turn in range(1 + 2 * ((batch + group - 1) // group)):
        base = max(turn - 1, 0) // 2 * group
        members = min(group, batch - base)
        if turn > 0 and turn % 2 == 0:
            for track in range(members * directions):
                _enter(ends, track // directions * chunks, chunks, power_r, power_i, track % directions)
        for worker in prange(workers):
            register = flush_denormals()
            if turn == 0:
                for number in range(worker, in_b + in_c + in_w, workers):
                    if number < in_b:
                        pack_panel(b, number, packed_b)
                    elif number < in_b + in_c:
                        pack_panel(c, number - in_b, packed_c)
                    else:
                        pack_panel(w, number - in_b - in_c, packed_w)
            else:
                jobs = members * chunks
                for job in range(worker * jobs // workers, (worker + 1) * jobs // workers):
                    chunk = job % chunks
                    start, rows = job // chunks * length + chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
                    if turn % 2 == 1:
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


@njit(fastmath=_FAST)
def _skip(y, rows, skip, u, first, out):
    """out = y + skip u; rows of u and out from `first` on."""
    keep_apart()
    for r in range(rows):
        row, inputs, target = y[r], u[first + r], out[first + r]
        for i in range(skip.shape[0]):
            target[i] = row[i] + skip[i] * inputs[i]


@njit(fastmath=_FAST)
def _skip_and_gelu(y, rows, skip, u, first, g):
    """y += skip u, g = gelu(y) in its tanh form: (1 + tanh(a)) / 2 = sigmoid(2a)."""
    keep_apart()
    cube, factor = y.dtype.type(0.044715), y.dtype.type(_SQRT_8_OVER_PI)
    for r in range(rows):
        row, inputs, target = y[r], u[first + r], g[r]
        for i in range(skip.shape[0]):
            value = row[i] + skip[i] * inputs[i]
            row[i] = value
            target[i] = value * sigmoid(factor * (value + cube * value * value * value))


@njit
def _copy(z, first, rows, out):
    keep_apart()
    for r in range(rows):
        for i in range(z.shape[1]):
            out[first + r, i] = z[first + r, i]


@njit(fastmath=_FAST)
def _join(out, first, rows, y, g, v, activation):
    """out += the gated activation."""
    keep_apart()
    h = out.shape[1]
    for r in range(rows):
        row, linear, active, gate = out[first + r], y[r], g[r], v[r]
        if activation == GELU:
            for i in range(h):
                row[i] += active[i]
        elif activation == HALF_GLU1:
            for i in range(h):
                row[i] += active[i] * sigmoid(gate[i])
        elif activation == HALF_GLU2:
            for i in range(h):
                row[i] += linear[i] * sigmoid(gate[i])
        else:
            for i in range(h):
                row[i] += gate[i] * sigmoid(gate[h + i])


@njit(fastmath=_FAST)
def _finish(out, first, rows, norm, eps, scale, offset):
    keep_apart()
    if norm == POST_LAYER:
        _normalize(out, first, rows, eps, out, first)
    if norm in (POST_AFFINE, POST_LAYER):
        for r in range(rows):
            row = out[first + r]
            for i in range(row.shape[0]):
                row[i] = row[i] * scale[i] + offset[i]
