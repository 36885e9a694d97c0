# mypy: ignore-errors
"""Numba kernel of a whole S5 block without gradients: states exist only for one chunk of time, in cache.

Shapes: b batch, L time, h features, P modes, d directions; [Re | Im] side by side in the last axis of 2P.

    u = z, or its rows normalised      x_t = lam x_{t-1} + b_bias + B u_t  (and backwards)      y = C x + skip u + shift
    g = gelu(y)      v = W g + w_bias      out = z + gated(y, g, v), or its rows normalised

A batch is worked off in groups of as many sequences as there are threads, each sequence in chunks of CHUNK steps:
first B u of every chunk and the state that the chunk alone would end with, then the states that enter the chunks
(a recurrence over chunks with lam^CHUNK), then scan, readout, activation, gate and residual of every chunk. All chunks
of a group are independent in the first and the last step, so the threads are busy whatever the batch size, and B u,
the only thing kept of the length of a sequence, is computed once for both directions.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from aireprune.ops.denormals import flush_denormals, restore_denormals
from aireprune.ops.numba_gemm import gemm, keep_apart, pack, padded
from aireprune.ops.numba_math import sigmoid
from aireprune.ops.numba_recurrence import recurrence

_FAST = {"contract", "reassoc", "nsz"}
CHUNK = 96  # steps; a multiple of every tile's rows
LAYER, GELU, HALF_GLU1, HALF_GLU2, FULL_GLU = range(5)  # activation
NO_NORM, AFFINE, LAYER_NORM = range(3)  # what happens to rows before B (AFFINE is folded there) and at the end
_SQRT_8_OVER_PI = math.sqrt(8 / math.pi)


def forward(z, lr, li, b, b_bias, c, skip, shift, w, w_bias, scale, offset, activation, pre, post, eps, workers, out):
    """z (b, L, h) -> out (b, L, h). lr, li (P,); b (2P, h), b_bias (2P,); c (h, d * 2P); skip, shift (h,);
    w (h, h), (2h, h) for FULL_GLU or (0, h), w_bias likewise; scale, offset (h,) of the last norm."""
    batch, length, h = z.shape
    modes, directions = b.shape[0], 2 if c.shape[1] > b.shape[0] else 1
    power = (lr.astype(np.complex128) + 1j * li) ** CHUNK
    chunks, group = -(-length // CHUNK), min(batch, workers)

    def empty(*shape):
        return np.empty(shape, z.dtype)

    scratch = (
        empty(workers, CHUNK, h if pre == LAYER_NORM else 0),
        empty(workers, CHUNK, directions * modes),
        empty(workers, CHUNK, _wide(h, z)),
        empty(workers, CHUNK, h),
        empty(workers, CHUNK, _wide(len(w), z)),
    )
    _turns(
        z.reshape(-1, h), batch, length, lr, li, power.real.astype(lr.dtype), power.imag.astype(lr.dtype),
        (_packed(b), _row(b_bias)), (_packed(c), _row(shift), _packed(w), _row(w_bias)), skip, scale, offset,
        activation, pre, post, eps, empty(group * length, _wide(modes, z)), empty(group * chunks, directions * modes),
        scratch, out.reshape(-1, h),
    )  # fmt: skip


def _wide(n, like):
    return int(padded(n, like.itemsize))


def _row(bias):
    return np.pad(bias, (0, _wide(len(bias), bias) - len(bias)))[None]


def _packed(w):
    packed = np.empty(_wide(len(w), w) * w.shape[1], w.dtype)
    pack(w, packed)
    return packed


@njit(parallel=True, fastmath=_FAST, cache=True)
def _turns(
    z, batch, length, lr, li, power_r, power_i, inward, outward, skip, scale, offset, activation, pre, post, eps, bu, ends,
    scratch, out,
):  # fmt: skip
    """The three steps for every group; z, out (b * L, h), bu (group * L, 2P), ends (group * chunks, d * 2P)."""
    us, xs, ys, gs, vs = scratch
    workers, chunks, group = us.shape[0], (length + CHUNK - 1) // CHUNK, bu.shape[0] // length
    directions = ends.shape[1] // (2 * lr.shape[0]) if lr.shape[0] else 1
    for turn in range(3 * ((batch + group - 1) // group)):
        base = turn // 3 * group
        members = min(group, batch - base)
        for worker in prange(workers):
            register = flush_denormals()
            if turn % 3 == 1:
                for track in range(worker, members * directions, workers):
                    _enter(ends, track // directions * chunks, chunks, power_r, power_i, track % directions)
            else:
                jobs = members * chunks
                for job in range(worker * jobs // workers, (worker + 1) * jobs // workers):
                    chunk = job % chunks
                    start, rows = job // chunks * length + chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
                    if turn % 3 == 0:
                        _drive(
                            z, base * length + start, rows, pre, eps, inward, lr, li, us[worker], bu, start, ends, job
                        )
                    else:
                        _respond(z, base * length + start, rows, pre, eps, outward, lr, li, us[worker], bu, start,
                                 ends, job, xs[worker], ys[worker], gs[worker], vs[worker], skip, activation,
                                 post, scale, offset, out)  # fmt: skip
            restore_denormals(register)


@njit
def _drive(z, at, rows, pre, eps, inward, lr, li, u, bu, start, ends, job):
    """B u of a chunk, and the state with which it ends when it starts from zero, in each direction."""
    packed, bias = inward
    width, top = 2 * lr.shape[0], np.int64(0)
    if pre == LAYER_NORM:
        _normalize(z, at, rows, eps, u, top)
        gemm(u, top, rows, packed, width, bias, bu, start)
    else:
        gemm(z, at, rows, packed, width, bias, bu, start)
    zero = np.zeros((1, width), z.dtype)
    for column in range(0, ends.shape[1], max(width, 1)):
        _scan(bu, start, rows, lr, li, column > 0, zero, top, ends, job * ends.shape[1] + column, top)


@njit
def _respond(z, at, rows, pre, eps, outward, lr, li, u, bu, start, enters, job, x, y, g, v, skip, activation, post, scale,
             offset, out):  # fmt: skip
    """Scan, readout, activation, gate, residual and last norm of a chunk."""
    packed_c, bias_c, packed_w, bias_w = outward
    width, top = x.shape[1], np.int64(0)
    for column in range(0, width, max(2 * lr.shape[0], 1)):
        _scan(bu, start, rows, lr, li, column > 0, enters, job * width + column, x, column, width)
    gemm(x, top, rows, packed_c, z.shape[1], bias_c, y, top)
    if activation == LAYER:
        _skip(y, rows, skip, z, at, out, at)
        return
    if pre == LAYER_NORM:
        _normalize(z, at, rows, eps, u, top)
        _skip(y, rows, skip, u, top, y, top)
    else:
        _skip(y, rows, skip, z, at, y, top)
    _gelu(y, rows, g)
    gemm(g, top, rows, packed_w, bias_w.shape[1], bias_w, v, top)
    _join(z, at, rows, y, g, v, activation, out)
    _finish(out, at, rows, post, eps, scale, offset)


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
def _skip(y, rows, skip, u, u_first, out, out_first):
    """out = y + skip u."""
    keep_apart()
    for r in range(rows):
        row, inputs, target = y[r], u[u_first + r], out[out_first + r]
        for i in range(skip.shape[0]):
            target[i] = row[i] + skip[i] * inputs[i]


@njit(fastmath=_FAST)
def _gelu(y, rows, g):
    """The tanh form: (1 + tanh(a)) / 2 = sigmoid(2a)."""
    keep_apart()
    cube, factor = y.dtype.type(0.044715), y.dtype.type(_SQRT_8_OVER_PI)
    for r in range(rows):
        row, target = y[r], g[r]
        for i in range(g.shape[1]):
            value = row[i]
            target[i] = value * sigmoid(factor * (value + cube * value * value * value))


@njit(fastmath=_FAST)
def _join(z, first, rows, y, g, v, activation, out):
    """out = z + the gated activation."""
    keep_apart()
    h = z.shape[1]
    for r in range(rows):
        row, target, linear, active, gate = z[first + r], out[first + r], y[r], g[r], v[r]
        if activation == GELU:
            for i in range(h):
                target[i] = row[i] + active[i]
        elif activation == HALF_GLU1:
            for i in range(h):
                target[i] = row[i] + active[i] * sigmoid(gate[i])
        elif activation == HALF_GLU2:
            for i in range(h):
                target[i] = row[i] + linear[i] * sigmoid(gate[i])
        else:
            for i in range(h):
                target[i] = row[i] + gate[i] * sigmoid(gate[h + i])


@njit(fastmath=_FAST)
def _finish(out, first, rows, post, eps, scale, offset):
    keep_apart()
    if post == LAYER_NORM:
        _normalize(out, first, rows, eps, out, first)
    if post != NO_NORM:
        for r in range(rows):
            row = out[first + r]
            for i in range(row.shape[0]):
                row[i] = row[i] * scale[i] + offset[i]
