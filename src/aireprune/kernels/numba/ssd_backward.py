# mypy: ignore-errors
"""The adjoint of the Mamba-2 scan: H heads of P channels, G groups of N states, one decay per head and time step.

With g_t the gradient of the state S_t (P, N), delta_t the step and a_t = 2^(delta_t A) the decay of a head:

    g_t  = gy_t C_t^T + a_{t+1} g_{t+1}                     gB_t = delta_t sum_p x_tp g_tp      gC_t = sum_p gy_tp S_tp
    gx_t = delta_t g_t B_t + D gy_t                         gdelta_t = x_t . g_t B_t + ln(2) A a_t <g_t, S_{t-1}>

A thread takes one group of one sequence, because the heads of a group share B and C. The states at the start of every
chunk come first, then chunk by chunk from the end: recompute its states, walk it backwards. Vectors run along the states,
whose number is a whole number of vectors; the caller fills them up with zeros.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.compile import FAST, keep_apart, kernel
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.lanes import Lanes
from aireprune.kernels.numba.math import exp2, sigmoid, softplus

CHUNK = (
    8  # steps whose states are held at a time: those of a head of 16 channels and 64 states fit the first-level cache
)


def _make_advance(channels):
    """S <- a_t S + dx_t B_t for `channels` channels from p on: held (CHUNK + 1, P, N), of which the first is given.

    dx (CHUNK, P); B from element `first` on, `stride` elements from one step to the next. apart: elements of `held` from
    one step to the next; 0 keeps the last state alone, in the place of the first.
    """

    @intrinsic
    def advance(typing_context, held, dx, B, decay, p, width, first, stride, n_states, steps, apart):
        def codegen(context, builder, signature, args):
            v = Lanes(context, builder, held.dtype)
            held_, dx_, b_, decay_ = (v.start(signature.args[i], args[i]) for i in range(4))
            p, width, first, stride, n_states, steps, apart = args[4:]
            lanes = ir.Constant(p.type, v.count)
            with cgutils.for_range(builder, steps) as loop:
                before, at = builder.mul(loop.index, apart), builder.mul(loop.index, stride)
                after, channel = builder.add(before, apart), builder.add(p, builder.mul(loop.index, width))
                drives = [v.broadcast(dx_, v.index(channel, 1, k)) for k in range(channels)]
                a = v.broadcast(decay_, loop.index)
                with cgutils.for_range(builder, builder.sdiv(n_states, lanes)) as vectors:
                    column = builder.mul(vectors.index, lanes)
                    row = v.load(b_, builder.add(builder.add(first, column), at))
                    for k, drive in enumerate(drives):
                        place = builder.add(column, builder.mul(v.index(p, 1, k), n_states))
                        state = v.add(v.mul(a, v.load(held_, builder.add(before, place))), v.mul(drive, row))
                        v.store(state, held_, builder.add(after, place))
            return context.get_dummy_value()

        i = types.intp
        return types.void(held, dx, B, decay, i, i, i, i, i, i, i), codegen

    return advance


def _make_retreat(channels):
    """The steps backwards for `channels` channels from p on; g (P, N) is brought from behind them to before them.

    gB and gC lie as B and C do and grow; reads (CHUNK, P) gets g_t B_t, and olds (CHUNK,) grows by <g_t, S_{t-1}>.
    """

    @intrinsic
    def retreat(
        typing_context, held, dx, up, B, C, decay, g, gB, gC, reads, olds, p, width, first, stride, n_states, steps
    ):
        def codegen(context, builder, signature, args):
            v = Lanes(context, builder, held.dtype)
            arrays = [v.start(signature.args[i], args[i]) for i in range(11)]
            held_, dx_, up_, b_, c_, decay_, g_, to_b_, to_c_, reads_, olds_ = arrays
            p, width, first, stride, n_states, steps = args[11:]
            size, lanes = builder.mul(width, n_states), ir.Constant(p.type, v.count)
            with cgutils.for_range(builder, steps) as loop:
                step = builder.sub(v.index(steps, 1, -1), loop.index)
                before, at, a = builder.mul(step, size), builder.mul(step, stride), v.broadcast(decay_, step)
                after, channel = builder.add(before, size), builder.add(p, builder.mul(step, width))
                ups = [v.broadcast(up_, v.index(channel, 1, k)) for k in range(channels)]
                drives = [v.broadcast(dx_, v.index(channel, 1, k)) for k in range(channels)]
                read, old = [v.variable(v.zero()) for _ in range(channels)], v.variable(v.zero())
                with cgutils.for_range(builder, builder.sdiv(n_states, lanes)) as vectors:
                    column = builder.mul(vectors.index, lanes)
                    here = builder.add(builder.add(first, column), at)
                    b_row, c_row, to_b, to_c = (v.load(array, here) for array in (b_, c_, to_b_, to_c_))
                    kept = builder.load(old)
                    for k in range(channels):
                        place = builder.add(column, builder.mul(v.index(p, 1, k), n_states))
                        grown = v.add(v.load(g_, place), v.mul(ups[k], c_row))
                        to_c = v.add(to_c, v.mul(ups[k], v.load(held_, builder.add(after, place))))
                        to_b = v.add(to_b, v.mul(drives[k], grown))
                        kept = v.add(kept, v.mul(grown, v.load(held_, builder.add(before, place))))
                        builder.store(v.add(builder.load(read[k]), v.mul(grown, b_row)), read[k])
                        v.store(v.mul(a, grown), g_, place)
                    builder.store(kept, old)
                    v.store(to_b, to_b_, here)
                    v.store(to_c, to_c_, here)
                for k in range(channels):
                    builder.store(v.total(builder.load(read[k])), builder.gep(reads_, [v.index(channel, 1, k)]))
                place = builder.gep(olds_, [step])
                builder.store(builder.fadd(builder.load(place), v.total(builder.load(old))), place)
            return context.get_dummy_value()

        i = types.intp
        return types.void(held, dx, up, B, C, decay, g, gB, gC, reads, olds, i, i, i, i, i, i), codegen

    return retreat


_advance_4, _advance_1, _retreat_4, _retreat_1 = _make_advance(4), _make_advance(1), _make_retreat(4), _make_retreat(1)


@kernel(parallel=True, error_model="numpy")
def ssd_backward(x, dt, A, B, C, D, bias, low, high, state, gy, gstate, gx, gdt, gA, gB, gC, gD):
    """Adjoint of `ssd_forward`. x, gy, gx (b, L, H, P); dt, gdt (b, L, H); A (H,) times log2(e); B, C, gB, gC
    (b, L, G, N), the latter two zero; state (b, H, P, N) is the initial one.

    gstate (b, H, P, N) enters as the gradient of the final state and leaves as that of the initial one. gA, with respect
    to A times log2(e), and gD (b, H) are per sequence.
    """
    batch, length, heads, width = x.shape
    groups, n_states = B.shape[2], B.shape[3]
    per_group, stride = heads // groups, groups * n_states
    chunks = (length + CHUNK - 1) // CHUNK
    flat_b, flat_c, flat_gb, flat_gc = B.reshape(-1), C.reshape(-1), gB.reshape(-1), gC.reshape(-1)
    for job in prange(batch * groups):
        register = flush_denormals()
        b, group = job // groups, job % groups
        starts = np.empty((chunks, width, n_states), x.dtype)
        held = np.empty((CHUNK + 1, width, n_states), x.dtype)
        delta, decay, olds = np.empty(CHUNK, x.dtype), np.empty(CHUNK, x.dtype), np.empty(CHUNK, x.dtype)
        dx, up = np.empty((CHUNK, width), x.dtype), np.empty((CHUNK, width), x.dtype)
        reads = np.empty((CHUNK, width), x.dtype)
        for head in range(group * per_group, (group + 1) * per_group):
            held[0] = state[b, head]
            gpole, gskip = x.dtype.type(0), x.dtype.type(0)
            for sweep in range(2 * chunks):
                forwards = sweep < chunks
                k = sweep if forwards else 2 * chunks - 1 - sweep
                place, steps = (b, k * CHUNK, head), min(CHUNK, length - k * CHUNK)
                first = ((b * length + k * CHUNK) * groups + group) * n_states
                _prepare(x, dt, A[head], bias[head], low, high, place, steps, delta, decay, dx)
                if forwards:
                    starts[k] = held[0]
                    _advance(held, dx, flat_b, decay, first, stride, steps, 0)
                    continue
                held[0] = starts[k]
                _advance(held, dx, flat_b, decay, first, stride, steps, width * n_states)
                olds[:] = 0
                up[:steps] = gy[b, k * CHUNK : k * CHUNK + steps, head]
                _retreat(
                    held, dx, up, flat_b, flat_c, decay, gstate[b, head], flat_gb, flat_gc, reads, olds, first, stride, steps
                )  # fmt: skip
                sums = _finish(
                    x, dt, A[head], D[head], bias[head], low, high, place, steps, delta, decay, up, reads, olds, gx, gdt
                )  # fmt: skip
                gpole, gskip = gpole + sums[0], gskip + sums[1]
            gA[b, head], gD[b, head] = gpole, gskip
        restore_denormals(register)


@njit(fastmath=FAST, error_model="numpy")
def _prepare(x, dt, pole, bias, low, high, place, steps, delta, decay, dx):
    """Steps, decays and delta x of a chunk. place: sequence, first time step, head."""
    keep_apart()
    b, first, head = place
    for i in range(steps):
        row = x[b, first + i, head]
        delta[i] = min(max(softplus(dt[b, first + i, head] + bias), low), high)
        decay[i] = exp2(delta[i] * pole)
        for p in range(row.shape[0]):
            dx[i, p] = delta[i] * row[p]


@njit
def _advance(held, dx, B, decay, first, stride, steps, apart):
    keep_apart()
    width, n_states = held.shape[1:]
    for p in range(0, width - 3, 4):
        _advance_4(held, dx, B, decay, p, width, first, stride, n_states, steps, apart)
    for p in range(width - width % 4, width):
        _advance_1(held, dx, B, decay, p, width, first, stride, n_states, steps, apart)


@njit
def _retreat(held, dx, up, B, C, decay, g, gB, gC, reads, olds, first, stride, steps):
    keep_apart()
    width, n_states = g.shape
    for p in range(0, width - 3, 4):
        _retreat_4(held, dx, up, B, C, decay, g, gB, gC, reads, olds, p, width, first, stride, n_states, steps)
    for p in range(width - width % 4, width):
        _retreat_1(held, dx, up, B, C, decay, g, gB, gC, reads, olds, p, width, first, stride, n_states, steps)


@njit(fastmath=FAST, error_model="numpy")
def _finish(x, dt, pole, skip, bias, low, high, place, steps, delta, decay, up, reads, olds, gx, gdt):
    """Gradients of x and dt of a chunk, and its part of those of A and D."""
    keep_apart()
    b, first, head = place
    zero, ln2 = x.dtype.type(0), x.dtype.type(np.log(2.0))
    gpole, gskip = zero, zero
    for i in range(steps):
        row, to_x, driven = x[b, first + i, head], gx[b, first + i, head], zero
        for p in range(row.shape[0]):
            to_x[p] = delta[i] * reads[i, p] + skip * up[i, p]
            driven += row[p] * reads[i, p]
            gskip += row[p] * up[i, p]
        pull = ln2 * decay[i] * olds[i]
        gpole += delta[i] * pull
        raw = dt[b, first + i, head] + bias
        inside = low <= softplus(raw) <= high
        gdt[b, first + i, head] = (driven + pole * pull) * sigmoid(raw) if inside else zero
    return gpole, gskip
