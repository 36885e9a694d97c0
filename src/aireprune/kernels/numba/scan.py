# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Numba kernels of the diagonal scan: split real and imaginary parts, vectorised over states, threads over batch.

Arrays: bu, dbu (batch, L, 2P) hold [Re | Im]; x, gx (batch, L, directions, 2P) hold the same per direction;
lr, li (P,) are the poles. Direction 0 runs forwards in time, direction 1 backwards.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from aireprune.kernels.numba.compile import FAST, kernel
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals


@kernel(parallel=True, fastmath=FAST)
def scan_forward(lr, li, bu, x):
    """x_t = lam * x_{t-1} + bu_t, written into x."""
    batch, length, directions, width = x.shape
    p = width // 2
    for job in prange(batch * directions):
        register = flush_denormals()
        b, d = job // directions, job % directions
        sr = np.zeros(p, x.dtype)
        si = np.zeros(p, x.dtype)
        for step in range(length):
            t = step if d == 0 else length - 1 - step
            row = bu[b, t]
            out = x[b, t, d]
            for i in range(p):
                r = lr[i] * sr[i] - li[i] * si[i] + row[i]
                s = lr[i] * si[i] + li[i] * sr[i] + row[p + i]
                sr[i] = r
                si[i] = s
                out[i] = r
                out[p + i] = s
        restore_denormals(register)


@kernel(parallel=True, fastmath=FAST)
def scan_backward(lr, li, x, gx, dbu, dlam):
    """Adjoint of `scan_forward`: s_t = gx_t + conj(lam) s_{t+1}; dbu = sum of s over directions;
    dlam[b] = sum over t and directions of s_t * conj(x_{t-1}), as [Re | Im]."""
    batch, length, directions, width = x.shape
    p = width // 2
    for b in prange(batch):
        register = flush_denormals()
        gr = np.zeros(p, x.dtype)
        gi = np.zeros(p, x.dtype)
        for d in range(directions):
            sr = np.zeros(p, x.dtype)
            si = np.zeros(p, x.dtype)
            for step in range(length):
                t = length - 1 - step if d == 0 else step
                before = t - 1 if d == 0 else t + 1
                grad = gx[b, t, d]
                out = dbu[b, t]
                for i in range(p):
                    r = grad[i] + lr[i] * sr[i] + li[i] * si[i]
                    s = grad[p + i] + lr[i] * si[i] - li[i] * sr[i]
                    sr[i] = r
                    si[i] = s
                if d == 0:
                    for i in range(p):
                        out[i] = sr[i]
                        out[p + i] = si[i]
                else:
                    for i in range(p):
                        out[i] += sr[i]
                        out[p + i] += si[i]
                if step + 1 < length:
                    past = x[b, before, d]
                    for i in range(p):
                        gr[i] += sr[i] * past[i] + si[i] * past[p + i]
                        gi[i] += si[i] * past[i] - sr[i] * past[p + i]
        for i in range(p):
            dlam[b, i] = gr[i]
            dlam[b, p + i] = gi[i]
        restore_denormals(register)
