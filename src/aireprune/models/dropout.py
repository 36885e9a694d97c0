"""Dropout for sequences."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TimeDropout(nn.Module):
    """Dropout that drops a feature for the whole sequence (Flax's broadcast over time): x (b, L, h) -> (b, L, h)."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def factor(self, x: Tensor) -> Tensor | None:
        """What x is multiplied by, (b, 1, h); None where nothing is dropped."""
        if not self.training or self.p == 0:
            return None
        keep = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= self.p
        return keep.to(x.dtype) / (1 - self.p)

    def forward(self, x: Tensor) -> Tensor:
        factor = self.factor(x)
        return x if factor is None else x * factor
