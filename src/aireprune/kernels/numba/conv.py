# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Numba kernels of the depthwise causal convolution with SiLU and of its adjoint, in one pass over time each."""

from __future__ import annotations

import numpy as np
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


@kernel(parallel=True, fastmath=FAST, error_model="numpy")
def causal_conv_backward(u, column, taps, bias, before, activate, gy, gu, gtaps, gbias, gbefore):
    """Adjoint of `causal_conv`: gy, gu (b, L, D), gtaps (b, k, D) and gbias (b, D) per sequence, gbefore (b, k - 1, D).

    gu, gtaps, gbias and gbefore enter as zeros.
    """
    batch, length, channels = gy.shape
    k = taps.shape[0]
    for b in prange(batch):
        register = flush_denormals()
        g = np.empty(channels, gy.dtype)
        to_bias = gbias[b]
        for t in range(length):
            from_y = gy[b, t]
            if activate:
                for c in range(channels):
                    g[c] = bias[c]
                for i in range(k):
                    source = t - (k - 1) + i
                    tap = taps[i]
                    row = u[b, source, column : column + channels] if source >= 0 else before[b, source + k - 1]
                    for c in range(channels):
                        g[c] += tap[c] * row[c]
                for c in range(channels):
                    s = sigmoid(g[c])
                    g[c] = from_y[c] * s * (1 + g[c] * (1 - s))
            else:
                for c in range(channels):
                    g[c] = from_y[c]
            for c in range(channels):
                to_bias[c] += g[c]
            for i in range(k):
                source = t - (k - 1) + i
                tap, to_tap = taps[i], gtaps[b, i]
                row = u[b, source, column : column + channels] if source >= 0 else before[b, source + k - 1]
                to_row = gu[b, source] if source >= 0 else gbefore[b, source + k - 1]
                for c in range(channels):
                    to_tap[c] += g[c] * row[c]
                    to_row[c] += g[c] * tap[c]
        restore_denormals(register)
