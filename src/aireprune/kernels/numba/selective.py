# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Numba kernels of the selective scan (Mamba-1): discretisation, recurrence, contraction, gate, in one pass over time.

Arrays, all contiguous: x, dt, z, y (b, L, D); B, C (b, L, N); A (D, N), or (N, D) times log2(e) in the backward;
D, bias (D,); state (b, N, D). Threads take (sequence, block of channels); every inner loop runs over the channels of a
block, so the states of a block stay in cache and nothing of size (b, L, D, N) ever exists.

    Delta = softplus(dt + bias)   a_n = 2^(Delta A_n)   h_n <- a_n h_n + Delta x B_n   y = (sum_n C_n h_n + D x) silu(z)
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.compile import FAST, kernel
from aireprune.kernels.numba.constants import LOG2E
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.lanes import VECTOR_BYTES, Lanes, aligned_rows
from aireprune.kernels.numba.math import exp2, sigmoid, softplus

BACKWARD_BLOCK = 64
UNROLL = 4  # states per round of the forward kernel's innermost loop
CHUNK = 32  # time steps whose states the backward pass recomputes at a time


def _unrolled(builder, count, body):
    """body(0) .. body(count - 1), UNROLL to a round."""
    rounds = builder.udiv(count, ir.Constant(count.type, UNROLL))
    with cgutils.for_range(builder, rounds) as loop:
        first = builder.mul(loop.index, ir.Constant(count.type, UNROLL))
        for i in range(UNROLL):
            body(builder.add(first, ir.Constant(count.type, i)))
    done = builder.mul(rounds, ir.Constant(count.type, UNROLL))
    with cgutils.for_range(builder, builder.sub(count, done)) as loop:
        body(builder.add(done, loop.index))


def _make_row(gated):
    """One time step of a block of channels, in two sweeps over its vectors: the steps Delta, then everything else.

    Arrays with their first elements: x, dt, y at `row`, z at `gate_row`; bias, skip, delta (width,), h and pole (N, width)
    at their start; B, C at `states`. The rows `ahead` and `gate_ahead` elements on are prefetched: a block is too narrow
    for the hardware to see the pattern. One sweep for both would be one long chain of dependent operations.
    """

    @intrinsic
    def advance(
        typing_context, x, dt, y, row, ahead, z, gate_row, gate_ahead, bias, skip, delta, h, pole, B, C, states, n, vectors
    ):  # fmt: skip
        def codegen(context, builder, signature, args):
            v = Lanes(context, builder, x.dtype)
            types_of = dict(zip(_ROW, signature.args, strict=True))
            value = dict(zip(_ROW, args, strict=True))

            def start(name, offset=None):
                return v.start(types_of[name], value[name], None if offset is None else value[offset])

            x_, dt_, y_, z_ = start("x", "row"), start("dt", "row"), start("y", "row"), start("z", "gate_row")
            bias_, skip_, delta_, h_, pole_ = (start(name) for name in ("bias", "skip", "delta", "h", "pole"))
            b_, c_ = start("B", "states"), start("C", "states")
            width = builder.mul(value["vectors"], ir.Constant(args[-1].type, v.count))

            def channel(loop):
                return builder.mul(loop.index, ir.Constant(args[-1].type, v.count))

            with cgutils.for_range(builder, value["vectors"]) as loop:
                at = channel(loop)
                next_row = builder.add(at, value["ahead"])
                v.prefetch(dt_, next_row)
                v.prefetch(x_, next_row)
                if gated:
                    v.prefetch(z_, builder.add(at, value["gate_ahead"]))
                v.store(v.softplus(v.add(v.load(dt_, at), v.load(bias_, at))), delta_, at)
            with cgutils.for_range(builder, value["vectors"]) as loop:
                at = channel(loop)
                u, step = v.load(x_, at), v.load(delta_, at)
                gate = v.silu(v.load(z_, at)) if gated else None
                dx, out = v.mul(step, u), v.variable(v.mul(v.load(skip_, at), u))

                def advance_state(n, at=at, step=step, dx=dx, out=out):
                    place = builder.add(builder.mul(n, width), at)
                    decay = v.exp2(v.mul(step, v.load(pole_, place)))
                    after = v.add(v.mul(decay, v.load(h_, place)), v.mul(dx, v.broadcast(b_, n)))
                    v.store(after, h_, place)
                    builder.store(v.add(v.mul(after, v.broadcast(c_, n)), builder.load(out)), out)

                _unrolled(builder, value["n"], advance_state)
                total = builder.load(out)
                v.store(v.mul(total, gate) if gated else total, y_, at)
            return context.get_dummy_value()

        i = types.intp
        return types.void(x, dt, y, i, i, z, i, i, bias, skip, delta, h, pole, B, C, i, i, i), codegen

    return advance


_ROW = (
    "x", "dt", "y", "row", "ahead", "z", "gate_row", "gate_ahead", "bias", "skip", "delta", "h", "pole", "B", "C",
    "states", "n", "vectors",
)  # fmt: skip
advance_gated, advance_ungated = _make_row(True), _make_row(False)


@kernel(parallel=True, error_model="numpy")  # no fast-math: Lanes.exp2 must not be simplified
def selective_forward(x, dt, A, B, C, D, bias, z, gated, state, y, z_column, width):
    """Fill y, `width` channels (a multiple of the vector) to a block; `state` is the initial state, then the final one.

    The gate is z[..., z_column : z_column + D], so that it may be half of a projection. y may be
    dt itself: a row of dt is read before the same row of y is written. A block that does not fill its last vector works
    on padded copies.
    """
    batch, length, channels = x.shape
    n_states, gate_channels, log2e = A.shape[1], z.shape[2], x.dtype.type(LOG2E)
    lane_count = VECTOR_BYTES // x.itemsize
    blocks = (channels + width - 1) // width
    flat_x, flat_dt, flat_y, flat_z = x.reshape(-1), dt.reshape(-1), y.reshape(-1), z.reshape(-1)
    for job in prange(batch * blocks):
        register = flush_denormals()
        b, first = job // blocks, (job % blocks) * width
        w = min(width, channels - first)
        vectors = (w + lane_count - 1) // lane_count
        padded = vectors * lane_count
        h, pole = aligned_rows(n_states, padded, x.dtype), aligned_rows(n_states, padded, x.dtype)
        h[:, :w], pole[:, :w] = state[b, :, first : first + w], log2e * A[first : first + w].T
        rows = aligned_rows(6, padded, x.dtype)
        shift, skip, delta, now_dt, now_x, now_z = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
        shift[:w], skip[:w] = bias[first : first + w], D[first : first + w]
        for t in range(length):
            row, states = b * length + t, (b * length + t) * n_states
            at, gate_at = row * channels + first, row * gate_channels + z_column + first
            if w < padded:
                now_dt[:w], now_x[:w] = flat_dt[at : at + w], flat_x[at : at + w]
                if gated:
                    now_z[:w] = flat_z[gate_at : gate_at + w]
                    advance_gated(
                        now_x, now_dt, now_dt, 0, 0, now_z, 0, 0,
                        shift, skip, delta, h, pole, B, C, states, n_states, vectors,
                    )  # fmt: skip
                else:
                    advance_ungated(
                        now_x, now_dt, now_dt, 0, 0, now_x, 0, 0,
                        shift, skip, delta, h, pole, B, C, states, n_states, vectors,
                    )  # fmt: skip
                flat_y[at : at + w] = now_dt[:w]
            elif gated:
                advance_gated(
                    flat_x, flat_dt, flat_y, at, channels, flat_z, gate_at, gate_channels,
                    shift, skip, delta, h, pole, B, C, states, n_states, vectors,
                )  # fmt: skip
            else:
                advance_ungated(
                    flat_x, flat_dt, flat_y, at, channels, flat_x, at, channels,
                    shift, skip, delta, h, pole, B, C, states, n_states, vectors,
                )  # fmt: skip
        state[b, :, first : first + w] = h[:, :w]
        restore_denormals(register)


@kernel(parallel=True, fastmath=FAST, error_model="numpy")
def selective_backward(x, dt, A, B, C, D, bias, z, gated, state, gy, gstate, gx, gdt, gA, gB, gC, gD, gz):
    """Adjoint of `selective_forward`, with `state` the initial state. A is times log2(e), gA is with respect to that.

    First the states at the start of every chunk, then chunk by chunk from the end: recompute its states and decays,
    walk it backwards. gstate (b, N, D) enters as the gradient of the final state and leaves as that of the initial
    one. gA (b, N, D) and gD (b, D) are per sequence, gB and gC (b, blocks, L, N) per block of channels; the caller
    sums them.
    """
    batch, length, channels = x.shape
    n_states = A.shape[0]
    width = BACKWARD_BLOCK
    blocks = (channels + width - 1) // width
    chunks = (length + CHUNK - 1) // CHUNK
    ln2 = np.log(2.0)
    for job in prange(batch * blocks):
        register = flush_denormals()
        b, block = job // blocks, job % blocks
        first = block * width
        w = min(width, channels - first)
        dtype = x.dtype
        starts = np.zeros((chunks, n_states, width), dtype)
        h = np.zeros((CHUNK + 1, n_states, width), dtype)
        decay = np.zeros((CHUNK, n_states, width), dtype)
        delta = np.zeros((CHUNK, width), dtype)
        pole = np.zeros((n_states, width), dtype)
        gh = np.zeros((n_states, width), dtype)
        gpole = np.zeros((n_states, width), dtype)
        gskip = np.zeros(width, dtype)
        u = np.zeros(width, dtype)
        read = np.zeros(width, dtype)
        gread = np.zeros(width, dtype)
        gdx = np.zeros(width, dtype)
        gdelta = np.zeros(width, dtype)
        for n in range(n_states):
            for c in range(w):
                pole[n, c] = A[n, first + c]
                gh[n, c] = gstate[b, n, first + c]
                h[0, n, c] = state[b, n, first + c]
        skip, shift = D[first : first + w], bias[first : first + w]
        for sweep in range(2 * chunks):
            k = sweep if sweep < chunks else 2 * chunks - 1 - sweep
            t0 = k * CHUNK
            steps = min(CHUNK, length - t0)
            if sweep >= chunks:
                h[0] = starts[k]
            else:
                starts[k] = h[0]
            for i in range(steps):
                raw, here = dt[b, t0 + i, first : first + w], x[b, t0 + i, first : first + w]
                d = delta[i]
                for c in range(w):
                    d[c] = softplus(raw[c] + shift[c])
                    gdx[c] = d[c] * here[c]
                for n in range(n_states):
                    b_n = B[b, t0 + i, n]
                    before, after, a, p = h[i, n], h[i + 1, n], decay[i, n], pole[n]
                    for c in range(width):
                        a[c] = exp2(d[c] * p[c])
                        after[c] = a[c] * before[c] + gdx[c] * b_n
            if sweep < chunks:
                h[0] = h[steps]
                continue
            for i in range(steps - 1, -1, -1):
                t = t0 + i
                raw, here, g_y = (dt[b, t, first : first + w], x[b, t, first : first + w], gy[b, t, first : first + w])
                d = delta[i]
                for c in range(w):
                    u[c] = here[c]
                    read[c] = skip[c] * here[c]
                for n in range(n_states):
                    c_n, after = C[b, t, n], h[i + 1, n]
                    for c in range(width):
                        read[c] += c_n * after[c]
                if gated:
                    gate, g_z = z[b, t, first : first + w], gz[b, t, first : first + w]
                    for c in range(w):
                        s = sigmoid(gate[c])
                        g_z[c] = g_y[c] * read[c] * s * (1 + gate[c] * (1 - s))
                        gread[c] = g_y[c] * gate[c] * s
                else:
                    for c in range(w):
                        gread[c] = g_y[c]
                gdx[:] = 0
                gdelta[:] = 0
                for n in range(n_states):
                    b_n, c_n = B[b, t, n], C[b, t, n]
                    before, after, a, p = h[i, n], h[i + 1, n], decay[i, n], pole[n]
                    g_h, g_p = gh[n], gpole[n]
                    sum_b, sum_c = dtype.type(0), dtype.type(0)
                    for c in range(width):
                        g = g_h[c] + gread[c] * c_n
                        sum_c += gread[c] * after[c]
                        sum_b += g * d[c] * u[c]
                        gdx[c] += g * b_n
                        back = g * a[c]
                        step = back * before[c]  # d loss / d (Delta A_n ln 2)
                        gdelta[c] += step * p[c]
                        g_p[c] += step * d[c]
                        g_h[c] = back
                    gB[b, block, t, n] = sum_b
                    gC[b, block, t, n] = sum_c
                g_dt, g_x = gdt[b, t, first : first + w], gx[b, t, first : first + w]
                for c in range(w):
                    gskip[c] += gread[c] * here[c]
                    g_dt[c] = (dtype.type(ln2) * gdelta[c] + gdx[c] * here[c]) * sigmoid(raw[c] + shift[c])
                    g_x[c] = gdx[c] * d[c] + gread[c] * skip[c]
        for n in range(n_states):
            for c in range(w):
                gA[b, n, first + c] = dtype.type(ln2) * gpole[n, c]
                gstate[b, n, first + c] = gh[n, c]
        for c in range(w):
            gD[b, first + c] = gskip[c]
        restore_denormals(register)


@kernel(fastmath=FAST, error_model="numpy")
def selective_step(state, x, dt, A, B, C, D, bias, z, gated, y):
    """One time step in place: x, dt, z, y (b, D), B, C (b, N), A (D, N) times log2(e), state (b, D, N) as in caches."""
    register = flush_denormals()
    batch, channels, n_states = state.shape
    for b in range(batch):
        for c in range(channels):
            y[b, c] = softplus(dt[b, c] + bias[c])
        for c in range(channels):
            delta = y[b, c]
            dx = delta * x[b, c]
            total = D[c] * x[b, c]
            for n in range(n_states):
                h = exp2(delta * A[c, n]) * state[b, c, n] + dx * B[b, n]
                state[b, c, n] = h
                total += h * C[b, n]
            y[b, c] = total
        if gated:
            for c in range(channels):
                gate = z[b, c]
                y[b, c] *= gate * sigmoid(gate)
    restore_denormals(register)
