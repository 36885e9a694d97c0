# mypy: ignore-errors
"""The causal convolution of Mamba and Mamba-2 for a few rows; a stream's memory holds its last k - 1 inputs."""

from __future__ import annotations

from numba import njit

from aireprune.kernels.numba.compile import FAST, keep_apart
from aireprune.kernels.numba.math import sigmoid


@njit(fastmath=FAST, error_model="numpy")
def convolve(u, first, length, column, weights, at, window, out):
    """Convolution and SiLU of rows of u from `first` on, columns from `column` on, into the same rows of out.

    weights from `at` on: k taps (k, channels), then the bias (channels,); window (k - 1, channels) is brought up to date.
    """
    keep_apart()
    channels, before = out.shape[1], window.shape[0]
    bias = weights[at + (before + 1) * channels : at + (before + 2) * channels]
    for t in range(length):
        row = out[first + t]
        row[:] = bias
        for i in range(before + 1):
            tap = weights[at + i * channels : at + (i + 1) * channels]
            source = t - before + i
            earlier = u[first + source, column : column + channels] if source >= 0 else window[before + source]
            for c in range(channels):
                row[c] += tap[c] * earlier[c]
        for c in range(channels):
            row[c] *= sigmoid(row[c])
    for i in range(before):
        source = length - before + i
        newer = u[first + source, column : column + channels] if source >= 0 else window[before + source]
        window[i] = newer
