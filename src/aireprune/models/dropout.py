"""Dropout for sequences."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TimeDropout(nn.Module):
    """Dropout that drops a feature for the whole sequence (Flax's broadcast over time): x (b, L, h) -> (b, L, h)."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        keep = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= self.p
        return x * (keep.to(x.dtype) / (1 - self.p))
