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
_PARTS = 11  # of the memory that a call works in, each with a start at a cache line of its own
_SQRT_8_OVER_PI = math.sqrt(8 / math.pi)


def forward(
    z, poles, step_rescale, clip_at, bilinear, b, c, c_scale, d, activation, w, w_bias, norm, affine, eps, workers, out
):  # fmt: skip
    """z (b, L, h) -> out (b, L, h). poles: real and imaginary parts and logarithms of steps, (P,) each; b (P, h, 2);
    c: (h, P, 2) per direction; d (h,); w, w_bias: (h, h) and (h,) of each gate matrix; affine: the norm's weight and
    bias and, if it is a batch norm, its mean and variance, (h,) each."""
    (batch, length, h), nothing = z.shape, np.empty(0, z.dtype)
    w_rows, w_constant = _stacked(w, (0, h), z.dtype), _stacked(w_bias, (0,), z.dtype)
    states, gates, lanes = len(c) * 2 * len(b), len(w_rows), VECTOR_BYTES // z.itemsize
    width = 2 * len(b) + lanes  # of B u, at most
    group = min(batch, max(1, workers * _BUDGET // max(length * width * z.itemsize, 1)))
    per_sequence, per_step = length * width + -(-length // CHUNK) * states, 3 * h + states + gates + 2 * lanes
    weights = width * h + (h + lanes) * states + (gates + lanes) * h
    room = group * per_sequence + workers * CHUNK * per_step + weights + _PARTS * lanes
    _turns(
        z.reshape(-1, h), batch, length, group, poles, step_rescale, clip_at, bilinear, b, c[0], c[-1], len(c), c_scale, d,
        w_rows, w_constant, (*affine, nothing, nothing, nothing, nothing)[:4], activation, norm, eps, workers,
        np.empty(room, z.dtype), z.ctypes.data == out.ctypes.data, out.reshape(-1, h),
    )  # fmt: skip


def _stacked(parts, empty, dtype):
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(empty, dtype)


@njit(error_model="numpy")
def discrete_pole(re, im, step, bilinear):
    """log|lam|, arg(lam) and the factor of a row of B: `aireprune.discretize` for a single pole."""
    if bilinear:
        ar, ai = re * step / 2, im * step / 2
        square = (1 - ar) * (1 - ar) + ai * ai
        lam_r, lam_i = (1 - ar * ar - ai * ai) / square, 2 * ai / square
        factor = complex(step * (1 - ar) / square, step * ai / square)
        return math.log1p(4 * ar / square) / 2, math.atan2(lam_i, lam_r), factor
    x, y = re * step, im * step
    square = x * x + y * y
    if square < 1e-6:
        z = complex(x, y)
        return x, y, step * (1 + z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5))))
    half = math.sin(y / 2)
    grown_r, grown_i = math.expm1(x) * math.cos(y) - 2 * half * half, math.exp(x) * math.sin(y)  # lam - 1
    return x, y, complex(step * (grown_r * x + grown_i * y) / square, step * (grown_i * x - grown_r * y) / square)


@njit(error_model="numpy")
def _discrete(poles, step_rescale, clip_at, bilinear):
    """Discrete poles and their CHUNK-th powers, (P,) each, and the factors of B's rows."""
    keep_apart()
    re, im, log_step = poles
    p = re.shape[0]
    lr, li, power_r, power_i = np.empty_like(re), np.empty_like(re), np.empty_like(re), np.empty_like(re)
    factor = np.empty(p, np.complex128)
    for i in range(p):
        clipped = clip_at if re[i] > clip_at else np.float64(re[i])
        step = step_rescale * math.exp(np.float64(log_step[i]))
        radius, angle, factor[i] = discrete_pole(clipped, np.float64(im[i]), step, bilinear)
        lr[i], li[i] = math.exp(radius) * math.cos(angle), math.exp(radius) * math.sin(angle)  # the radius may be -inf
        power_r[i] = math.exp(CHUNK * radius) * math.cos(CHUNK * angle)
        power_i[i] = math.exp(CHUNK * radius) * math.sin(CHUNK * angle)
    return (lr, li), (power_r, power_i), factor


@njit(error_model="numpy")
def _affine(norm, weights, eps):
    """What the norm multiplies by and adds, (h,) each."""
    keep_apart()
    weight, bias, mean, variance = weights
    scale, offset = weight.copy(), bias.copy()
    if norm in (PRE_BATCH, POST_BATCH):
        for j in range(weight.shape[0]):
            scale[j] = weight[j] / np.sqrt(variance[j] + weight.dtype.type(eps))
            offset[j] = bias[j] - mean[j] * scale[j]
    return scale, offset


@njit
def _constants(norm, affine, d, w_constant, widths):
    """What B's product takes of the norm before the layer, the skip weights, and the biases of the three products."""
    keep_apart()
    scale, offset = affine
    h = d.shape[0]
    to_b, add_b, skip = np.ones(h, d.dtype), np.zeros(h, d.dtype), d.copy()
    bias_b, bias_c = np.zeros((1, widths[0]), d.dtype), np.zeros((1, widths[1]), d.dtype)
    bias_w = np.zeros((1, widths[2]), d.dtype)
    for j in range(w_constant.shape[0]):
        bias_w[0, j] = w_constant[j]
    if norm in (PRE_BATCH, PRE_LAYER):
        for j in range(h):
            to_b[j], add_b[j] = scale[j], offset[j]
            skip[j] = d[j] * scale[j]
            bias_c[0, j] = d[j] * offset[j]
    return (to_b, add_b), skip, (bias_b, bias_c, bias_w)


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


@njit
def _take(memory, at, pages, rows, width):
    """An array (pages, rows, width) from `at` on, and where the next one may start: at a cache line, because a vector that
    straddles two lines is loaded twice."""
    size, line = pages * rows * width, 64 // memory.itemsize
    return memory[at : at + size].reshape(pages, rows, width), at + (size + line - 1) // line * line


@kernel(parallel=True)  # what is compiled within inherits fast-math, which Lanes does not stand
def _turns(
    z, batch, length, group, poles, step_rescale, clip_at, bilinear, b, c_forwards, c_backwards, directions, c_scale, d,
    w_rows, w_constant, norm_weights, activation, norm, eps, workers, memory, in_place, out,
):  # fmt: skip
    """Two turns for the weights, two for a group of sequences; z, out (b * L, h)."""
    p, h, chunks = b.shape[0], z.shape[1], (length + CHUNK - 1) // CHUNK
    widths = padded(2 * p, z.itemsize), padded(h, z.itemsize), padded(w_rows.shape[0], z.itemsize)
    (lr, li), (power_r, power_i), factor = _discrete(poles, step_rescale, clip_at, bilinear)
    scale, offset = _affine(norm, norm_weights, eps)
    (to_b, add_b), skip, (bias_b, bias_c, bias_w) = _constants(norm, (scale, offset), d, w_constant, widths)
    b_rows, c_rows = np.empty((2 * p, h), z.dtype), np.empty((h, directions * 2 * p), z.dtype)
    states, u_width = directions * 2 * p, h if norm == PRE_LAYER else 0
    at = -memory.ctypes.data % 64 // z.itemsize
    bu, at = _take(memory, at, 1, group * length, widths[0])
    ends, at = _take(memory, at, 1, group * chunks, states)
    packed_b, at = _take(memory, at, 1, 1, widths[0] * h)
    packed_c, at = _take(memory, at, 1, 1, widths[1] * states)
    packed_w, at = _take(memory, at, 1, 1, widths[2] * h)
    us, at = _take(memory, at, workers, CHUNK, u_width)
    xs, at = _take(memory, at, workers, CHUNK, states)
    ys, at = _take(memory, at, workers, CHUNK, widths[1])
    gs, at = _take(memory, at, workers, CHUNK, h)
    vs, at = _take(memory, at, workers, CHUNK, widths[2])
    in_b, in_c, in_w = panels(2 * p, z.itemsize), panels(h, z.itemsize), panels(w_rows.shape[0], z.itemsize)
    for turn in range(2 + 2 * ((batch + group - 1) // group)):
        base = max(turn - 2, 0) // 2 * group
        members = min(group, batch - base)
        if turn > 1 and turn % 2 == 1:
            for track in range(members * directions):
                _enter(ends[0], track // directions * chunks, chunks, power_r, power_i, track % directions)
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
                        pack_panel(b_rows, number, packed_b[0, 0])
                    elif number < in_b + in_c:
                        pack_panel(c_rows, number - in_b, packed_c[0, 0])
                    else:
                        pack_panel(w_rows, number - in_b - in_c, packed_w[0, 0])
            else:
                jobs = members * chunks
                for job in range(worker * jobs // workers, (worker + 1) * jobs // workers):
                    chunk = job % chunks
                    start, rows = job // chunks * length + chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
                    if turn % 2 == 0:
                        _drive(z, base * length + start, rows, norm, eps, packed_b[0, 0], bias_b, lr, li, us[worker], bu[0],
                               start, ends[0], job)  # fmt: skip
                    else:
                        _respond(z, base * length + start, rows, norm, eps, packed_c[0, 0], bias_c, packed_w[0, 0], bias_w,
                                 lr, li, us[worker], bu[0], start, ends[0], job, xs[worker], ys[worker], gs[worker],
                                 vs[worker], skip, activation, scale, offset, in_place, out)  # fmt: skip
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
