"""The gates of a projected Mamba-2 layer: N' of them from N values (`aireprune.method.projection`)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from aireprune.families.mamba2 import PROJECTIONS


def gates(values: Tensor, matrix: Tensor | None) -> Tensor:
    """values (..., G, N), matrix (G N', N) -> (..., G, N'); without a matrix the values are the gates."""
    if matrix is None:
        return values
    per_group = matrix.unflatten(0, (values.shape[-2], -1)).to(values.dtype)
    return torch.einsum("...gn,gkn->...gk", values, per_group)


def is_projected(mixer: nn.Module) -> bool:
    """Whether a Mamba-2 mixer has a projection."""
    return getattr(mixer, PROJECTIONS[0], None) is not None
