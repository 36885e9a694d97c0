"""From a stack's features to logits: pooling over time, and the head that compares two documents."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MODES = ("pool", "last", "tokens")


def pooled(z: Tensor, lengths: Tensor | None, mode: str, cleared: bool = False) -> Tensor:
    """(b, L, h) -> (b, h), or all steps in mode tokens. With lengths (b,), only the first lengths[i] steps count.

    cleared: the others are zero already.
    """
    if mode == "tokens":
        return z
    if lengths is None:
        return z.mean(1) if mode == "pool" else z[:, -1].clone()  # a view would keep all of z
    lengths = lengths.to(z.device)
    if not torch.compiler.is_compiling() and bool(((lengths < 1) | (lengths > z.shape[1])).any()):
        raise ValueError(f"lengths must be between 1 and {z.shape[1]}, got {lengths.tolist()}")
    if mode == "last":
        return z[torch.arange(len(z), device=z.device), lengths - 1]
    if not cleared:
        z = z * (torch.arange(z.shape[1], device=z.device)[None, :] < lengths[:, None])[..., None]
    return z.sum(1) / lengths[:, None].to(z.dtype)


class RetrievalHead(nn.Module):
    """Two documents' features (2n, h), first documents first -> logits (n, classes)."""

    def __init__(self, h: int, classes: int):
        super().__init__()
        self.layer1, self.layer2 = nn.Linear(4 * h, h), nn.Linear(h, classes)

    def forward(self, features: Tensor) -> Tensor:
        if features.shape[0] % 2:
            raise ValueError(f"the retrieval head takes pairs of documents, got {features.shape[0]}")
        a, b = features.chunk(2)
        return self.layer2(F.gelu(self.layer1(torch.cat([a, b, a - b, a * b], dim=-1)), approximate="tanh"))


def make_head(h: int, classes: int, retrieval: bool) -> nn.Module:
    return RetrievalHead(h, classes) if retrieval else nn.Linear(h, classes)
