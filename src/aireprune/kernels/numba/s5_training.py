# mypy: ignore-errors
"""Numba kernels of an S5 block in training: sequence by sequence, in chunks of time that stay in cache.

Shapes: b batch, L time, h features, P modes, d directions, G numbers that the gate matrices give (h, or 2h for full_glu);
[Re | Im] side by side in the last axis of 2P. `aireprune.kernels.numba.s5_training_rows` has the equations.

The forward pass keeps B u, y, the gates and the states that enter the chunks. The backward pass makes states and GELU once
more from these, chunk by chunk. It goes through a sequence twice: forwards in time from the gradient of `out` to that of y
and through the scan that ran backwards, then backwards in time through the other scan and on to z. What is a sum over
sequences and steps, a worker adds up over its own; which sequences are whose depends only on the number of workers, so
that the same number gives the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from aireprune.kernels.numba import s5_training_rows as of_rows
from aireprune.kernels.numba.compile import keep_apart, kernel
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.gemm import bias_row, gemm, outer, packed, padded
from aireprune.kernels.numba.recurrence import recurrence

CHUNK = 96  # steps; a multiple of every tile's rows


def forward_room(length, h, width, gates, directions, itemsize):
    """Rows and widths of what a worker of `forward` works in: a chunk of states, of y, of g, of what the gates give."""
    rows = min(CHUNK, length)
    return (
        (rows, directions * width),
        (rows, int(padded(h, itemsize))),
        (rows, h),
        (rows, int(padded(gates, itemsize))),
    )


def backward_room(length, h, width, gates, itemsize):
    """The same of `backward`: dy and the scan that ran backwards of a whole sequence; of a chunk, gradients of the gates, g,
    the slope of GELU, a product of h columns, states with those before them, a product of 2P columns, the other scan, z
    about its mean; then sums and the state that a scan goes on from."""
    rows, line = min(CHUNK, length), 1
    return (
        (length, h), (length, width), (rows, gates), (rows, h), (rows, h), (rows, int(padded(h, itemsize))),
        (rows + 1, width), (rows, int(padded(width, itemsize))), (rows, width), (rows, h), (line, width),
    )  # fmt: skip


def sums_room(h, width, gates, directions, itemsize):
    """Rows and widths of the sums of a worker of `backward`: dW, dC of each direction, dB (for z about its mean); then of
    dv, dy, dy times z about its mean, dbu, and dlam."""
    of_h, of_width = int(padded(h, itemsize)), int(padded(width, itemsize))
    return (
        (gates, of_h), (directions * h, of_width), (width, of_h), (1, gates), (1, h), (1, h), (1, width), (1, width),
    )  # fmt: skip


@kernel(parallel=True)
def moments(z, workers, mean, square):
    """Of every sequence, (b, h): the mean over time and the sum of squared distances from it."""
    batch, length, h = z.shape
    rows = z.reshape(batch * length, h)
    for worker in prange(workers):
        for s in range(worker * batch // workers, (worker + 1) * batch // workers):
            first, top = s * length * h, np.int64(0)
            mean[s], square[s] = 0, 0
            of_rows.add_up((rows, mean[s]), (first, top), length, h)
            for i in range(h):
                mean[s, i] /= length
            of_rows.spread((rows, mean[s], square[s]), (first, top, top), length, h)


@kernel(parallel=True)  # no fast-math: what it calls would inherit it, and Lanes must not be simplified
def forward(z, poles, b, c, skip, w, factors, full, buffers, bu, enters, y, v, out):
    """z (b, L, h) -> out (b, L, h); kept: bu (b, L, padded 2P), enters (b, chunks, 2P d), y (b, L, h), v (b, L, G).

    poles: lr, li (P,). b, w: matrices (2P, h), (G, h) and what is added to their products; c (h, 2P d). skip: what z is
    multiplied by, and what is added to y, (h,) each. factors: of the dropouts, (b, h) each. buffers: of every worker.
    """
    batch, workers = z.shape[0], buffers[0].shape[0]
    packed_b, packed_c, packed_w = packed(b[0]), packed(c), packed(w[0])
    bias_b, bias_c, bias_w = bias_row(b[1]), bias_row(skip[1]), bias_row(w[1])
    for worker in prange(workers):
        register = flush_denormals()
        for s in range(worker * batch // workers, (worker + 1) * batch // workers):
            _drive(z[s], poles, packed_b, bias_b, bu[s], enters[s])
            _respond(
                z[s], poles, packed_c, bias_c, skip[0], packed_w, bias_w, factors[0][s], factors[1][s], full,
                buffers[0][worker], buffers[1][worker], buffers[2][worker], buffers[3][worker], bu[s], enters[s],
                y[s], v[s], out[s],
            )  # fmt: skip
        restore_denormals(register)


@njit
def _drive(z, poles, packed_b, bias, bu, enters):
    """B u of a sequence, and the states with which the scan that runs backwards enters its chunks."""
    keep_apart()
    (lr, li), length, wide, of_enters = poles, z.shape[0], bu.shape[1], enters.shape[1]
    width, chunks = 2 * lr.shape[0], enters.shape[0]
    for chunk in range(chunks):
        at = chunk * CHUNK
        gemm(z, at, min(CHUNK, length - at), packed_b, width, bias, bu, at)
    enters[0, :width], enters[chunks - 1, width:] = 0, 0
    if of_enters > width:
        for chunk in range(chunks - 1, 0, -1):
            at, rows = chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
            before, after = chunk * of_enters + width, (chunk - 1) * of_enters + width
            recurrence(lr, li, enters, before, bu, (at + rows - 1) * wide, -wide, rows, enters, after, np.int64(0))


@njit
def _respond(
    z, poles, packed_c, bias_c, direct, packed_w, bias_w, first, second, full, x, read, g, gated, bu, enters, y, v, out
):  # fmt: skip
    """Scans, readout, activation, gate and residual of a sequence, chunk by chunk."""
    keep_apart()
    (lr, li), (length, h), wide, of_x = poles, z.shape, bu.shape[1], x.shape[1]
    width, chunks, top, gates = 2 * lr.shape[0], enters.shape[0], np.int64(0), v.shape[1]
    for chunk in range(chunks):
        at, rows = chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
        recurrence(lr, li, enters, chunk * of_x, bu, at * wide, wide, rows, x, top, of_x)
        if chunk + 1 < chunks:
            enters[chunk + 1, :width] = x[rows - 1, :width]
        if of_x > width:
            enter, last = chunk * of_x + width, rows - 1
            recurrence(lr, li, enters, enter, bu, (at + last) * wide, -wide, rows, x, last * of_x + width, -of_x)
        gemm(x, top, rows, packed_c, h, bias_c, read, top)
        here = at * h
        of_rows.activate((read, z, direct, first, y, g), (top, here, top, top, here, top), rows, h)
        gemm(g, top, rows, packed_w, gates, bias_w, gated, top)
        if full:
            of_rows.copy((gated, v), (top, at * gates), rows, h)
            places = here, top, h, top, at * gates + h, here
            of_rows.close((z, gated, gated, second, v, out), places, rows, h)
        else:
            of_rows.close((z, y, gated, second, v, out), (here, here, top, top, here, here), rows, h)


@kernel(parallel=True)
def backward(grad, z, kept, poles, b, c, skip, w, factors, mean, full, buffers, sums, dz):
    """The gradient of z but for what the mean and variance of the batch bring, from that of out; sums: see `sums_room`.

    kept: bu, enters, y, v of `forward`. b, c, w: as there, transposed: (h, 2P), (2P d, h), (h, G). skip, mean (h,). sums
    begin at zero.
    """
    batch, workers, width = z.shape[0], sums[0].shape[0], b.shape[1]
    packed_b, packed_w = packed(b), packed(w)
    packed_c = (packed(c[:width]), packed(c[c.shape[0] - width :]))
    for worker in prange(workers):
        register = flush_denormals()
        dy, other = buffers[0][worker], buffers[1][worker]
        for s in range(worker * batch // workers, (worker + 1) * batch // workers):
            work = (
                buffers[2][worker], buffers[3][worker], buffers[4][worker], buffers[5][worker], buffers[6][worker],
                buffers[7][worker], buffers[8][worker], buffers[9][worker], buffers[10][worker],
            )  # fmt: skip
            total = (
                sums[0][worker], sums[1][worker], sums[2][worker], sums[3][worker][0], sums[4][worker][0],
                sums[5][worker][0], sums[6][worker][0], sums[7][worker][0],
            )  # fmt: skip
            saved = (kept[0][s], kept[1][s], kept[2][s], kept[3][s])
            _into_system(
                grad[s], z[s], saved, poles, packed_c[1], packed_w, factors[0][s], factors[1][s], mean, full, work, total,
                dy, other,
            )  # fmt: skip
            _out_of_system(
                grad[s], z[s], saved, poles, packed_b, packed_c[0], skip, mean, work, total, dy, other, dz[s]
            )
        restore_denormals(register)


@njit
def _into_system(grad, z, kept, poles, packed_c, packed_w, first, second, mean, full, work, total, dy, other):
    """dy of a sequence, and what its scan backwards in time gives dbu, into `other`: forwards in time."""
    keep_apart()
    bu, enters, y, v = kept
    dv, g, slope, product, x, dx, _, _, state = work
    d_w, d_c, _, sum_v, sum_y, sum_yz, _, d_lam = total
    (lr, li), (length, h), gates, top = poles, z.shape, v.shape[1], np.int64(0)
    p, width, chunks, both = lr.shape[0], 2 * lr.shape[0], enters.shape[0], enters.shape[1] > 2 * lr.shape[0]
    nothing_h, nothing_p = np.zeros((1, product.shape[1]), z.dtype), np.zeros((1, dx.shape[1]), z.dtype)
    state[:] = 0
    for chunk in range(chunks):
        at, rows = chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
        here = at * h
        of_rows.gelu_again((y, first, g, slope), (here, top, top, top), rows, h)
        if full:
            arrays = grad, v, v, second, dv, dv, sum_v
            of_rows.close_backward(arrays, (here, at * gates, at * gates + h, top, top, h, h), rows, h)
            of_rows.add_up((dv, sum_v), (top, top), rows, h)
        else:
            arrays = grad, y, v, second, dy, dv, sum_v
            of_rows.close_backward(arrays, (here, here, here, top, here, top, top), rows, h)
        outer(dv, top, gates, g, top, h, rows, d_w)
        gemm(dv, top, rows, packed_w, h, nothing_h, product, top)
        arrays, places = (product, slope, z, mean, dy, sum_y, sum_yz), (top, top, here, top, here, top, top)
        if full:
            of_rows.activate_backward_alone(arrays, places, rows, h)
        else:
            of_rows.activate_backward(arrays, places, rows, h)
        if both:
            wide, last = bu.shape[1], rows - 1
            enter = chunk * 2 * width + width
            recurrence(lr, li, enters, enter, bu, (at + last) * wide, -wide, rows, x, last * width, -width)
            x[rows] = enters[chunk, width:]
            outer(dy, at, h, x, top, width, rows, d_c[h:])
            gemm(dy, at, rows, packed_c, width, nothing_p, dx, top)
            recurrence(lr, -li, state, top, dx, top, dx.shape[1], rows, other, at * width, width)
            state[0] = other[at + last]
            arrays, before = (other, other, x, x, d_lam, d_lam), width
            of_rows.poles(arrays, (at * width, at * width + p, before, before + p, top, p), rows, p)


@njit
def _out_of_system(grad, z, kept, poles, packed_b, packed_c, direct, mean, work, total, dy, other, dz):
    """From dy and `other` to the gradient of z: backwards in time."""
    keep_apart()
    bu, enters, _, _ = kept
    _, _, _, product, x, dx, dbu, centred, state = work
    _, d_c, d_b, _, _, _, sum_bu, d_lam = total
    (lr, li), (length, h), top = poles, z.shape, np.int64(0)
    p, width, chunks, both = lr.shape[0], 2 * lr.shape[0], enters.shape[0], enters.shape[1] > 2 * lr.shape[0]
    nothing_h, nothing_p = np.zeros((1, product.shape[1]), z.dtype), np.zeros((1, dx.shape[1]), z.dtype)
    wide, of_dx = bu.shape[1], dx.shape[1]
    state[:] = 0
    for chunk in range(chunks - 1, -1, -1):
        at, rows = chunk * CHUNK, min(CHUNK, length - chunk * CHUNK)
        here, last = at * h, rows - 1
        x[0] = enters[chunk, :width]
        recurrence(lr, li, enters, chunk * enters.shape[1], bu, at * wide, wide, rows, x, width, width)
        outer(dy, at, h, x, 1, width, rows, d_c)
        gemm(dy, at, rows, packed_c, width, nothing_p, dx, top)
        recurrence(lr, -li, state, top, dx, last * of_dx, -of_dx, rows, dbu, last * width, -width)
        state[0] = dbu[0]
        of_rows.poles((dbu, dbu, x, x, d_lam, d_lam), (top, p, top, p, top, p), rows, p)
        if both:
            of_rows.join((dbu, other, sum_bu), (top, at * width, top), rows, width)
        else:
            of_rows.add_up((dbu, sum_bu), (top, top), rows, width)
        of_rows.centre((z, mean, centred), (here, top, top), rows, h)
        outer(dbu, top, width, centred, top, h, rows, d_b)
        gemm(dbu, top, rows, packed_b, h, nothing_h, product, top)
        of_rows.residual((grad, product, direct, dy, dz), (here, top, top, here, here), rows, h)


@kernel(parallel=True)
def norm_backward(dz, z, mean, centre, tilt, workers):
    """dz - centre - tilt (z - mean), in place: what the mean and variance of the batch bring."""
    batch, length, h = z.shape
    into, rows, top = dz.reshape(batch * length, h), z.reshape(batch * length, h), np.int64(0)
    for worker in prange(workers):
        start, end = worker * batch * length // workers, (worker + 1) * batch * length // workers
        places = start * h, start * h, top, top, top
        of_rows.norm_backward((into, rows, mean, centre, tilt), places, end - start, h)
