# mypy: ignore-errors
"""What decoding of Mamba and Mamba-2 has in common: shares of the work, norms, convolutions, the answer.

The work of a layer is divided into `parts`, one for a thread, twice: what precedes the scan, and what follows it. A part
has channels of its own, and the products that end a layer are sums over channels, so each part makes a sum of its own
and the next layer adds them up. Every part keeps the residual stream for itself, so that none waits for another one.
"""

from __future__ import annotations

import math

from numba import njit

from aireprune.kernels.numba.compile import FAST, keep_apart
from aireprune.kernels.numba.decode_codes import BLOCK
from aireprune.kernels.numba.decode_products import product, read_row
from aireprune.kernels.numba.math import sigmoid


@njit
def share(count, part, parts, step):
    """First and last of `count` things that are the share of a part, in multiples of `step`."""
    pieces = (count + step - 1) // step
    return min(part * pieces // parts * step, count), min((part + 1) * pieces // parts * step, count)


@njit
def embed(model, kind, token, z):
    """The residual stream z (features,) of a token that no layer has seen."""
    keep_apart()
    read_row(model.embedding, model.embedding_scale, kind, model.vocabulary, model.features, token, z)


@njit(fastmath=FAST, error_model="numpy")
def gather(z, sums, factors, bias):
    """z (features,) += bias + the sums (parts, features) of all parts, each times a factor."""
    keep_apart()
    for part in range(sums.shape[0]):
        row, factor = sums[part], factors[part]
        for i in range(z.shape[0]):
            z[i] += factor * row[i]
    for i in range(z.shape[0]):
        z[i] += bias[i]


@njit(fastmath=FAST, error_model="numpy")
def rms(z, small, at, out):
    """z to mean square 1, times factors; small from `at` on: the factors, then epsilon."""
    keep_apart()
    features, square = z.shape[0], z.dtype.type(0)
    for i in range(features):
        square += z[i] * z[i]
    factor = z.dtype.type(1 / math.sqrt(square / features + small[at + features]))
    scale = small[at : at + features]
    for i in range(features):
        out[i] = z[i] * factor * scale[i]


@njit(fastmath=FAST, error_model="numpy")
def convolve(u, small, at, memory, window_at, taps, channels, first, out):
    """Convolution and SiLU of one input u of the channels from `first` on, into out.

    small from `at` on: taps (taps, channels), then the bias (channels,); memory: the last inputs (taps - 1, channels).
    """
    keep_apart()
    count = u.shape[0]
    weight, bias = small[at + (taps - 1) * channels + first :], small[at + taps * channels + first :]
    for i in range(count):
        out[i] = bias[i] + weight[i] * u[i]
    for tap in range(taps - 1):
        weight, earlier = small[at + tap * channels + first :], memory[window_at + tap * channels + first :]
        for i in range(count):
            out[i] += weight[i] * earlier[i]
    for tap in range(taps - 1):
        earlier = memory[window_at + tap * channels + first :]
        following = memory[window_at + (tap + 1) * channels + first :] if tap < taps - 2 else u
        for i in range(count):
            earlier[i] = following[i]
    for i in range(count):
        out[i] *= sigmoid(out[i])


@njit
def answer(model, kind, part, small, z, normed, logits):
    """The part's share of the logits for the residual stream z."""
    keep_apart()
    rms(z, small, model.norm_at, normed)
    first, last = share(model.vocabulary, part, model.parts, BLOCK)
    product(
        model.head, model.head_scale, kind, model.vocabulary, model.features, first, last, 0, normed, logits[first:last]
    )
