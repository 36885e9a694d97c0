"""From continuous to discrete time, differentiably: the torch twin of `aireprune.method.discretize`."""

from __future__ import annotations

import torch
from torch import Tensor

SERIES_BELOW = 1e-4  # |z| below which (e^z - 1)/z is taken from its series, because the quotient cancels


def discretize(lam: Tensor, step: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """The discrete pole, and the factor that turns B into its discrete form; method: zoh or bilinear.

    lam: continuous poles, complex; step: of a shape that broadcasts against lam.
    """
    if method == "zoh":
        z = lam * step
        tiny = z.abs() < SERIES_BELOW  # at a zero pole the quotient's limit is 1
        safe = torch.where(tiny, torch.ones_like(z), z)
        return torch.exp(z), torch.where(tiny, 1 + z / 2 + z * z / 6, (torch.exp(safe) - 1) / safe) * step
    half = lam * (step / 2)
    return (1 + half) / (1 - half), step / (1 - half)
