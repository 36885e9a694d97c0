"""What a model's first layer makes of a step: of numbers, or of a token that stands for its one-hot vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def encoded(encoder: nn.Linear, x: Tensor) -> Tensor:
    """x (b, L, d_input), or integer tokens (b, L) -> (b, L, h)."""
    if x.dtype in (torch.int64, torch.int32, torch.uint8):
        return F.embedding(x.long(), encoder.weight.T + encoder.bias)
    out: Tensor = encoder(x)
    return out
