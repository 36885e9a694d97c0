# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Numba kernel of the depthwise causal convolution with SiLU, in one pass over time."""

from __future__ import annotations

from numba import prange

from aireprune.kernels.numba.compile import FAST, kernel
from aireprune.kernels.numba.denormals import flush_denormals, restore_denormals
from aireprune.kernels.numba.math import sigmoid

SPAN = 128  # time steps of one job


@kernel(parallel=True, fastmath=FAST, error_model="numpy")
def causal_conv(u, column, taps, bias, before, activate, y):
    """Depthwise causal convolution and SiLU of u[..., column : column + D]: y (b, L, D), taps (k, D).

    before (b, k - 1, D) holds the earlier inputs.
    """
    batch, length, channels = y.shape
    k = taps.shape[0]
    pieces = (length + SPAN - 1) // SPAN
    for job in prange(batch * pieces):
        register = flush_denormals()
        b, start = job // pieces, (job % pieces) * SPAN
        for t in range(start, min(start + SPAN, length)):
            out = y[b, t]
            for c in range(channels):
                out[c] = bias[c]
            for i in range(k):
                source = t - (k - 1) + i
                tap = taps[i]
                row = u[b, source, column : column + channels] if source >= 0 else before[b, source + k - 1]
                for c in range(channels):
                    out[c] += tap[c] * row[c]
            if activate:
                for c in range(channels):
                    out[c] *= sigmoid(out[c])
        restore_denormals(register)
