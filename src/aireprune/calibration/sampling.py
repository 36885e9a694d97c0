"""Which of many time steps a fit looks at: neighbours say nearly the same, and least squares pays for every row."""

from __future__ import annotations

from torch import Tensor


def stride_for(tokens: int, rows: int) -> int:
    """An odd stride that leaves about so many rows: images and the like have even periods."""
    stride = max(1, tokens // rows)
    return stride - 1 + stride % 2


def some(stride: int, values: Tensor) -> Tensor:
    """Every stride-th time step of (b, L, f), and at least one of each sequence."""
    step = min(stride, values.shape[-2])
    return values[..., step - 1 :: step, :]
