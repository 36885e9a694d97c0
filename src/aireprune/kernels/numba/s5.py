# mypy: ignore-errors
"""Numba kernel of a whole S5 block without gradients: states exist only for one chunk of time, in cache.

Shapes: b batch, L time, h features, P modes, d directions; [Re | Im] side by side in the last axis of 2P.

    u = z, or its rows normalised      x_t = lam x_{t-1} + b_bias + B u_t  (and backwards)      y = C x + skip u + shift
    g = gelu(y)      v = W g + w_bias      out = z + gated(y, g, v), or its rows normalised

A batch is processed in groups of sequences, each sequence in chunks of CHUNK steps: first B u of every chunk and the
state that the chunk alone would end with, then the states that enter the chunks (a recurrence over chunks with
lam^CHUNK), then scan, readout, activation, gate and residual of every chunk. All chunks of a group are independent in
the first and the last step, so the threads are busy whatever the batch size, and B u, the only thing kept of the length
of a sequence, is computed once for both directions.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from aireprune.kernels.numba.compile import FAST, keep_apart, kernel
from aireprune.kernels.numba.constants import CACHE_LINE
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.gemm import gemm, pack_panel, padded, panels
from aireprune.kernels.numba.recurrence import recurrence
from aireprune.kernels.numba.s5_codes import LAYER, PRE_LAYER
from aireprune.kernels.numba.s5_rows import add_skip, copy, finish, join, normalize, skip_and_gelu
from aireprune.kernels.numba.s5_weights import constants, discrete, input_row, norm_factors, readout_row

CHUNK = 96  # steps; a multiple of every tile's rows
# bytes of B u per thread that may wait for their readout, unless one sequence has more: less than a second-level cache
# of 2 MB, so that weights and a chunk fit beside them
_BUDGET = 7 << 18


def forward(
    z, poles, step_rescale, clip_at, method, b, c, c_scale, d, activation, w, w_bias, norm, norm_weights, eps, workers, out
):  # fmt: skip
    """z (b, L, h) -> out (b, L, h). poles: real and imaginary parts and logarithms of steps, (P,) each; b (P, h, 2);
    c: (h, P, 2) per direction; d (h,); w, w_bias: (h, h) and (h,) of each gate matrix; norm_weights: weight and bias
    and, if it is a batch norm, its mean and variance, (h,) each."""
    (batch, length, h), nothing = z.shape, np.empty(0, z.dtype)
    w_rows, w_constant = _stacked(w, (0, h), z.dtype), _stacked(w_bias, (0,), z.dtype)
    room = _room(_shapes(batch, length, len(b), h, len(c), len(w_rows), norm, workers, z.itemsize), z.itemsize)
    _turns(
        z.reshape(-1, h), batch, length, poles, step_rescale, clip_at, method, b, c[0], c[-1], len(c), c_scale, d,
        w_rows, w_constant, (*norm_weights, nothing, nothing, nothing, nothing)[:4], activation, norm, eps, workers,
        np.empty(room, z.dtype), z.ctypes.data == out.ctypes.data, out.reshape(-1, h),
    )  # fmt: skip


def _stacked(parts, empty, dtype):
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(empty, dtype)


@kernel()
def _shapes(batch, length, p, h, directions, gates, norm, workers, itemsize):
    """The arrays that a call works in, (pages, rows, width) each: B u, the states that enter chunks, three packed matrices,
    then for every thread a chunk of normalised inputs, of states, of y, of its GELU, of what the gates make of it."""
    chunks, states = (length + CHUNK - 1) // CHUNK, directions * 2 * p
    of_b, of_c, of_w = padded(2 * p, itemsize), padded(h, itemsize), padded(gates, itemsize)
    group = min(batch, max(1, workers * _BUDGET // max(length * of_b * itemsize, 1)))
    return (
        (1, group * length, of_b), (1, group * chunks, states), (1, 1, of_b * h), (1, 1, of_c * states), (1, 1, of_w * h),
        (workers, CHUNK, h if norm == PRE_LAYER else 0), (workers, CHUNK, states), (workers, CHUNK, of_c),
        (workers, CHUNK, h), (workers, CHUNK, of_w),
    )  # fmt: skip


@kernel()
def _room(shapes, itemsize):
    """Elements for all of them, each from the start of a cache line on."""
    line = CACHE_LINE // itemsize
    total = line
    for pages, rows, width in shapes:
        total += lines(pages * rows * width, line)
    return total


@njit
def lines(size, line):
    return (size + line - 1) // line * line


@njit
def take(memory, at, shape):
    """An array of the shape from `at` on, and where the next one starts: a vector across two cache lines is loaded twice."""
    size = shape[0] * shape[1] * shape[2]
    return memory[at : at + size].reshape(shape), at + lines(size, CACHE_LINE // memory.itemsize)


@kernel(parallel=True)  # no fast-math: what it calls would inherit it, and Lanes must not be simplified
def _turns(
    z, batch, length, poles, step_rescale, clip_at, method, b, c_forwards, c_backwards, directions, c_scale, d,
    w_rows, w_constant, norm_weights, activation, norm, eps, workers, memory, in_place, out,
):  # fmt: skip
    """Two turns for the weights, two for a group of sequences; z, out (b * L, h)."""
    p, h = b.shape[0], z.shape[1]
    shapes = _shapes(batch, length, p, h, directions, w_rows.shape[0], norm, workers, z.itemsize)
    at = -memory.ctypes.data % CACHE_LINE // z.itemsize
    bu, at = take(memory, at, shapes[0])
    ends, at = take(memory, at, shapes[1])
    packed_b, at = take(memory, at, shapes[2])
    packed_c, at = take(memory, at, shapes[3])
    packed_w, at = take(memory, at, shapes[4])
    us, at = take(memory, at, shapes[5])
    xs, at = take(memory, at, shapes[6])
    ys, at = take(memory, at, shapes[7])
    gs, at = take(memory, at, shapes[8])
    vs, at = take(memory, at, shapes[9])
    (lr, li), (power_r, power_i), factor = discrete(poles, step_rescale, clip_at, method, CHUNK)
    scale, offset = norm_factors(norm, norm_weights, eps)
    widths = bu.shape[2], ys.shape[2], vs.shape[2]
    (to_b, add_b), skip, (bias_b, bias_c, bias_w) = constants(norm, (scale, offset), d, w_constant, widths)
    b_rows, c_rows = np.empty((2 * p, h), z.dtype), np.empty((h, directions * 2 * p), z.dtype)
    group, chunks = bu.shape[1] // length, (length + CHUNK - 1) // CHUNK
    in_b, in_c, in_w = panels(2 * p, z.itemsize), panels(h, z.itemsize), panels(w_rows.shape[0], z.itemsize)
    for turn in range(2 + 2 * ((batch + group - 1) // group)):
        base = max(turn - 2, 0) // 2 * group
        members = min(group, batch - base)
        if turn > 1 and turn % 2 == 1:
            for track in range(members * directions):
                enter(ends[0], track // directions * chunks, chunks, power_r, power_i, track % directions)
        for worker in prange(workers):
            register = flush_denormals()
            if turn == 0:
                for i in range(worker * p // workers, (worker + 1) * p // workers):
                    input_row(b, i, factor, to_b, add_b, b_rows, bias_b)
                for i in range(worker * h // workers, (worker + 1) * h // workers):
                    readout_row(c_forwards, i, c_scale, 0, c_rows)
                    if directions == 2:
                        readout_row(c_backwards, i, c_scale, 2 * p, c_rows)
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
                        drive(z, base * length + start, rows, norm, eps, packed_b[0, 0], bias_b, 2 * p, us[worker], bu[0],
                              start)  # fmt: skip
                        chunk_ends(bu[0], start, rows, lr, li, ends[0], job)
                    else:
                        respond(z, base * length + start, rows, rows, norm, eps, packed_c[0, 0], bias_c, packed_w[0, 0],
                                bias_w, lr, li, us[worker], bu[0], start, ends[0], job, xs[worker], ys[worker], gs[worker],
                                vs[worker], skip, activation, scale, offset, in_place, out)  # fmt: skip
            restore_denormals(register)


@njit
def drive(z, at, rows, norm, eps, packed, bias, width, u, bu, start):
    """B u of a chunk, rows of `width` numbers."""
    keep_apart()
    top = np.int64(0)
    if norm == PRE_LAYER:
        normalize(z, at, rows, eps, u, top)
        gemm(u, top, rows, packed, width, bias, bu, start)
    else:
        gemm(z, at, rows, packed, width, bias, bu, start)


@njit
def chunk_ends(bu, start, rows, lr, li, ends, job):
    """The state with which a chunk ends when it starts from zero, in each direction."""
    keep_apart()
    width, top = 2 * lr.shape[0], np.int64(0)
    zero = np.zeros((1, width), bu.dtype)
    for column in range(0, ends.shape[1], max(width, 1)):
        _scan(bu, start, rows, lr, li, column > 0, zero, top, ends, job * ends.shape[1] + column, top)


@njit
def respond(
    z, at, rows, wanted, norm, eps, packed_c, bias_c, packed_w, bias_w, lr, li, u, bu, start, enters, job, x, y, g, v, skip,
    activation, scale, offset, in_place, out,
):  # fmt: skip
    """Scan, readout, activation, gate, residual and last norm of a chunk; of its rows, the first `wanted` are put out."""
    keep_apart()
    width, top = x.shape[1], np.int64(0)
    for column in range(0, width, max(2 * lr.shape[0], 1)):
        scanned = rows if column > 0 else wanted
        _scan(bu, start, scanned, lr, li, column > 0, enters, job * width + column, x, column, width)
    gemm(x, top, wanted, packed_c, z.shape[1], bias_c, y, top)
    if activation == LAYER:
        add_skip(y, wanted, skip, z, at, out)
        return
    if norm == PRE_LAYER:
        normalize(z, at, wanted, eps, u, top)
        skip_and_gelu(y, wanted, skip, u, top, g)
    else:
        skip_and_gelu(y, wanted, skip, z, at, g)
    gemm(g, top, wanted, packed_w, bias_w.shape[1], bias_w, v, top)
    if not in_place:
        copy(z, at, wanted, out)
    join(out, at, wanted, y, g, v, activation)
    finish(out, at, wanted, norm, eps, scale, offset)


@njit(fastmath=FAST)
def enter(ends, first, chunks, power_r, power_i, direction):
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
