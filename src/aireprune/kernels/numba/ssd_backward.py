# mypy: ignore-errors
"""The adjoint of the Mamba-2 scan: H heads of P channels, G groups of N states, one decay per head and time step.

With g_t the gradient of the state S_t (P, N), delta_t the step and a_t = 2^(delta_t A) the decay of a head:

    g_t  = gy_t C_t^T + a_{t+1} g_{t+1}                     gB_t = delta_t sum_p x_tp g_tp      gC_t = sum_p gy_tp S_tp
    gx_t = delta_t g_t B_t + D gy_t                         gdelta_t = x_t . g_t B_t + ln(2) A a_t <g_t, S_{t-1}>

A thread takes one group of one sequence, because the heads of a group share B and C. The states at the start of every
chunk come first, then chunk by chunk from the end: recompute its states, walk it backwards.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from aireprune.kernels.numba.compile import FAST, keep_apart, kernel
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.math import exp2, sigmoid, softplus

CHUNK = 16  # steps whose states are held at a time; a head of 64 channels and 128 states then has half a megabyte


@kernel(parallel=True, fastmath=FAST, error_model="numpy")
def ssd_backward(x, dt, A, B, C, D, bias, low, high, state, gy, gstate, gx, gdt, gA, gB, gC, gD):
    """Adjoint of `ssd_forward`. x, gy, gx (b, L, H, P); dt, gdt (b, L, H); A (H,) times log2(e); B, C, gB, gC
    (b, L, G, N), the latter two zero; state (b, H, P, N) is the initial one.

    gstate (b, H, P, N) enters as the gradient of the final state and leaves as that of the initial one. gA, with respect
    to A times log2(e), and gD (b, H) are per sequence.
    """
    batch, length, heads, width = x.shape
    groups, n_states = B.shape[2], B.shape[3]
    per_group = heads // groups
    chunks = (length + CHUNK - 1) // CHUNK
    for job in prange(batch * groups):
        register = flush_denormals()
        b, group = job // groups, job % groups
        starts = np.empty((chunks, width, n_states), x.dtype)
        held = np.empty((CHUNK + 1, width, n_states), x.dtype)
        delta, decay, gdelta = np.empty(length, x.dtype), np.empty(length, x.dtype), np.empty(length, x.dtype)
        for head in range(group * per_group, (group + 1) * per_group):
            for t in range(length):
                delta[t] = min(max(softplus(dt[b, t, head] + bias[head]), low), high)
                decay[t] = exp2(delta[t] * A[head])
            held[0] = state[b, head]
            for k in range(chunks):
                starts[k] = held[0]
                steps = min(CHUNK, length - k * CHUNK)
                _advance(held, x, B, delta, decay, (b, k * CHUNK, head, group), steps)
                held[0] = held[steps]
            gpole, gskip = x.dtype.type(0), x.dtype.type(0)
            for k in range(chunks - 1, -1, -1):
                held[0] = starts[k]
                steps, place = min(CHUNK, length - k * CHUNK), (b, k * CHUNK, head, group)
                _advance(held, x, B, delta, decay, place, steps)
                sums = _retreat(
                    held, x, B, C, delta, decay, place, steps, gy, gstate[b, head], A[head], D[head], gx, gdelta, gB, gC
                )  # fmt: skip
                gpole, gskip = gpole + sums[0], gskip + sums[1]
            gA[b, head], gD[b, head] = gpole, gskip
            for t in range(length):
                raw = dt[b, t, head] + bias[head]
                gdt[b, t, head] = gdelta[t] * sigmoid(raw) if low <= softplus(raw) <= high else x.dtype.type(0)
        restore_denormals(register)


@njit(fastmath=FAST, error_model="numpy")
def _advance(held, x, B, delta, decay, place, steps):
    """The states after each of the steps, held[1:], from the one before them, held[0].

    place: sequence, first step, head, group.
    """
    keep_apart()
    b, first, head, group = place
    width, n_states = held.shape[1:]
    for i in range(steps):
        t = first + i
        u, row, before, after, a = x[b, t, head], B[b, t, group], held[i], held[i + 1], decay[t]
        for p in range(width):
            drive, old, new = delta[t] * u[p], before[p], after[p]
            for n in range(n_states):
                new[n] = a * old[n] + drive * row[n]


@njit(fastmath=FAST, error_model="numpy")
def _retreat(held, x, B, C, delta, decay, place, steps, gy, g, pole, skip, gx, gdelta, gB, gC):
    """The steps backwards; g (P, N) is brought from behind them to before them. Their part of the sums for A and D."""
    keep_apart()
    b, first, head, group = place
    width, n_states = g.shape
    zero, ln2 = x.dtype.type(0), x.dtype.type(np.log(2.0))
    gpole, gskip = zero, zero
    for i in range(steps - 1, -1, -1):
        t = first + i
        u, up, to_x, before, after = x[b, t, head], gy[b, t, head], gx[b, t, head], held[i], held[i + 1]
        b_row, c_row, to_b, to_c = B[b, t, group], C[b, t, group], gB[b, t, group], gC[b, t, group]
        step, a, through, driven = delta[t], decay[t], zero, zero
        for p in range(width):
            drive, up_p, read, old = step * u[p], up[p], zero, zero
            g_row, s, s_before = g[p], after[p], before[p]
            for n in range(n_states):
                to_c[n] += up_p * s[n]
            for n in range(n_states):
                grown = g_row[n] + up_p * c_row[n]
                to_b[n] += drive * grown
                read += grown * b_row[n]
                old += grown * s_before[n]
                g_row[n] = a * grown
            to_x[p] = step * read + skip * up_p
            driven += u[p] * read
            through += old
            gskip += up_p * u[p]
        pull = ln2 * a * through
        gdelta[t] = driven + pole * pull
        gpole += step * pull
    return gpole, gskip
