# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Numba kernels of the Mamba-2 scan: H heads of P channels, G groups of N states, one decay per head and time step.

A thread takes one head of one sequence through time in chunks. Within a chunk, a few states of one vector of channels
stay in registers for all its steps; only inputs and outputs of the chunk (CHUNK, P) are read and written, in cache.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from aireprune.kernels.numba.compile import FAST, kernel
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.lanes import VECTOR_BYTES, Lanes, aligned_rows
from aireprune.kernels.numba.math import exp2, softplus

CHUNK = 32


def _make_tile(states):
    """S_n <- a_t S_n + dx_t B_tn, y_t += S_n C_tn for `states` states n of one vector of channels, over `steps` steps.

    S (N, stride) from element s_at on, dx and y (steps, stride) from element `at` on, B and C from element n_at on with
    n_stride elements from one step to the next.
    """

    @intrinsic
    def tile(typing_context, s, s_at, dx, y, at, stride, decay, B, C, n_at, n_stride, steps):
        def codegen(context, builder, signature, args):
            v = Lanes(context, builder, s.dtype)
            s_, dx_, y_, decay_, b_, c_ = (v.start(signature.args[i], args[i]) for i in (0, 2, 3, 6, 7, 8))
            _, s_at, _, _, at, stride, _, _, _, n_at, n_stride, steps = args
            places = [builder.add(s_at, builder.mul(stride, ir.Constant(stride.type, n))) for n in range(states)]
            slots = [v.variable(v.load(s_, place)) for place in places]
            with cgutils.for_range(builder, steps) as loop:
                here = builder.add(at, builder.mul(loop.index, stride))
                first = builder.add(n_at, builder.mul(loop.index, n_stride))
                a, u, total = v.broadcast(decay_, loop.index), v.load(dx_, here), v.load(y_, here)
                for n, slot in enumerate(slots):
                    index = builder.add(first, ir.Constant(first.type, n))
                    after = v.add(v.mul(a, builder.load(slot)), v.mul(u, v.broadcast(b_, index)))
                    builder.store(after, slot)
                    total = v.add(total, v.mul(after, v.broadcast(c_, index)))
                v.store(total, y_, here)
            for slot, place in zip(slots, places, strict=True):
                v.store(builder.load(slot), s_, place)
            return context.get_dummy_value()

        i = types.intp
        return types.void(s, i, dx, y, i, i, decay, B, C, i, i, i), codegen

    return tile


tile_8, tile_1 = _make_tile(8), _make_tile(1)


@kernel(parallel=True, fastmath=FAST, error_model="numpy")
def ssd_forward(x, dt, A, B, C, D, bias, low, high, state, y):
    """Mamba-2: x, y (b, L, H, P); dt (b, L, H); A (H,) times log2(e); B, C (b, L, G, N); state (b, H, N, P) in and out.

    Delta = clip(softplus(dt + bias), low, high);  S_n <- 2^(Delta A) S_n + Delta B_n x;  y = sum_n C_n S_n + D x
    """
    batch, length, heads, width = x.shape
    groups, n_states = B.shape[2], B.shape[3]
    lane_count = VECTOR_BYTES // x.itemsize
    padded = (width + lane_count - 1) // lane_count * lane_count
    flat_b, flat_c = B.reshape(-1), C.reshape(-1)
    for job in prange(batch * heads):
        register = flush_denormals()
        b, head = job // heads, job % heads
        s, dx = aligned_rows(n_states, padded, x.dtype), aligned_rows(CHUNK, padded, x.dtype)
        out, decay = aligned_rows(CHUNK, padded, x.dtype), np.zeros(CHUNK, x.dtype)
        s[:, :width] = state[b, head]
        for start in range(0, length, CHUNK):
            steps = min(CHUNK, length - start)
            for i in range(steps):
                delta = min(max(softplus(dt[b, start + i, head] + bias[head]), low), high)
                decay[i] = exp2(delta * A[head])
                row = x[b, start + i, head]
                for p in range(width):
                    dx[i, p] = delta * row[p]
                    out[i, p] = D[head] * row[p]
            first = ((b * length + start) * groups + head // (heads // groups)) * n_states
            for column in range(0, padded, lane_count):
                n = 0
                while n_states - n >= 8:
                    tile_8(
                        s, n * padded + column, dx, out, column, padded, decay, flat_b, flat_c, first + n,
                        groups * n_states, steps,
                    )  # fmt: skip
                    n += 8
                while n < n_states:
                    tile_1(
                        s, n * padded + column, dx, out, column, padded, decay, flat_b, flat_c, first + n,
                        groups * n_states, steps,
                    )  # fmt: skip
                    n += 1
            for i in range(steps):
                y[b, start + i, head] = out[i, :width]
        state[b, head] = s[:, :width]
        restore_denormals(register)


@kernel(fastmath=FAST, error_model="numpy")
def ssd_step(state, x, dt, A, B, C, D, bias, y):
    """One time step of Mamba-2 in place: x, y (b, H, P), dt (b, H), B, C (b, G, N), state (b, H, P, N) as in caches."""
    register = flush_denormals()
    batch, heads, width, n_states = state.shape
    per_group = heads // B.shape[1]
    for b in range(batch):
        for head in range(heads):
            into, out = B[b, head // per_group], C[b, head // per_group]
            delta = softplus(dt[b, head] + bias[head])
            a = exp2(delta * A[head])
            for p in range(width):
                u, row, total = x[b, head, p], state[b, head, p], D[head] * x[b, head, p]
                drive = delta * u
                for n in range(n_states):
                    row[n] = a * row[n] + drive * into[n]
                    total += row[n] * out[n]
                y[b, head, p] = total
    restore_denormals(register)
