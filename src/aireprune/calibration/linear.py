"""The same least squares for an ordinary dense layer behind a reduced one: out_proj of Mamba, the mixing of S4D and S5."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.calibration.moments import Moments, best_change

Stream = Iterable[tuple[Tensor, Tensor, bool]]  # features (b, L, f), target (b, L, o), held out


def fit_linear(weight: Tensor, bias: Tensor | None, stream: Stream) -> None:
    """Change weight (o, f) and bias (o,), in place, so that features are mapped to targets."""
    outputs, width = weight.shape
    parts = [Moments.zeros(width + (bias is not None), outputs) for _ in range(2)]
    for features, target, held in stream:
        residual = target - F.linear(features, weight, bias)
        if bias is not None:
            features = torch.cat([features, torch.ones_like(features[..., :1])], -1)
        parts[held].add(features.flatten(0, 1), residual.flatten(0, 1))
    change = best_change(parts[0], parts[1] if parts[1].power > 0 else None)
    weight.add_(change[:width].T)
    if bias is not None:
        bias.add_(change[-1])
