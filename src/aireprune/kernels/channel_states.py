"""States of independent channels (S4D) at some of the time steps: what readouts of channels are fitted on.

All states of a long batch are more numbers than memory likes, and neighbouring steps say nearly the same. So the
recurrence runs over every step and only every stride-th state is written down.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def channel_features(
    lam: Tensor, u: Tensor, channels: Tensor, stride: int = 1, directions: int = 1, skip: bool = False
) -> Tensor:
    """[Re x | Im x] of x_t = lam x_{t-1} + u_t at t = stride - 1, 2 stride - 1, …, in double precision.

    lam (g, m) complex, u (b, L, h) float32, channels (g,): which of u drive them -> (g, rows, 2m directions + skip). The
    rows are those of the first sequence, then of the second, …. directions 2: the same against time behind it. skip: u
    itself in the last column.
    """
    from aireprune.kernels.numba.channel_states import channel_states

    g, m = lam.shape
    batch, length = u.shape[:2]
    drive, index = u.detach().contiguous().numpy(), channels.numpy()
    out = np.empty((g, batch, length // stride, 2 * m * directions + skip))
    re, im = (np.ascontiguousarray(part.numpy(), np.float32) for part in (lam.real, lam.imag))
    for direction in range(directions):
        channel_states((re, im), drive, index, (stride - 1, stride), direction == 1, 2 * m * direction, out)
    if skip:
        out[..., -1] = np.moveaxis(drive[:, stride - 1 :: stride, index], -1, 0)
    return torch.from_numpy(out).flatten(1, 2)


def every(stride: int, values: Tensor) -> Tensor:
    """The same rows of other values (b, L, g) -> (g, rows)."""
    return values[:, stride - 1 :: stride].permute(2, 0, 1).flatten(1)
