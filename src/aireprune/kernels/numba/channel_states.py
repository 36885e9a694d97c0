# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Numba kernel: the states of independent channels at some of the time steps, as rows of features for least squares."""

from __future__ import annotations

import numpy as np
from numba import prange

from aireprune.kernels.numba.compile import FAST, kernel
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals


@kernel(parallel=True, fastmath=FAST)
def channel_states(poles, u, index, steps, backward, at, out):
    """x_t = lam * x_{t-1} + u_t of some channels, at t = first, first + stride, …, written into out from column `at` on.

    poles: Re and Im, (channels, m); u (batch, L, h); index (channels,): the columns of u that drive them; steps: first and
    stride; out (channels, batch, rows, columns) gets [Re | Im] in its own precision. backward: against time.
    """
    lr, li = poles
    first, stride = steps
    batch, length = u.shape[:2]
    channels, m = lr.shape
    for job in prange(channels * batch):
        register = flush_denormals()
        c, b = job // batch, job % batch
        pole_re, pole_im = lr[c], li[c]
        sr = np.zeros(m, u.dtype)
        si = np.zeros(m, u.dtype)
        until = first + 1 if not backward else 1 + (length - 1 - first) % stride
        row = 0 if not backward else (length - 1 - first) // stride
        for step in range(length):
            drive = u[b, length - 1 - step if backward else step, index[c]]
            for i in range(m):
                r = pole_re[i] * sr[i] - pole_im[i] * si[i] + drive
                s = pole_re[i] * si[i] + pole_im[i] * sr[i]
                sr[i] = r
                si[i] = s
            until -= 1
            if until == 0 and 0 <= row < out.shape[2]:
                for i in range(m):
                    out[c, b, row, at + i] = sr[i]
                    out[c, b, row, at + m + i] = si[i]
                until = stride
                row += -1 if backward else 1
        restore_denormals(register)
