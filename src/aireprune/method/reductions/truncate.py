"""`truncate`: the paper's reduction. Kept modes stay as they are."""

from __future__ import annotations

import numpy as np

from aireprune.method.gramians import energy
from aireprune.method.reductions.base import Reduction, as_mask
from aireprune.method.system import ModalSystem
from aireprune.method.threads import single_threaded


@single_threaded
def truncate(system: ModalSystem, kept: np.ndarray, horizon: int | None = None) -> Reduction:
    """Drop all modes but the kept ones (indices, or bools of shape (*batch, n))."""
    mask = as_mask(system, kept)
    error = system.with_c(np.where(mask[..., None, None, :], 0, system.c))
    return Reduction(
        method="truncate",
        system=system.gather(mask),
        error=error,
        order=mask.sum(-1),
        kept=mask,
        energy=energy(system, horizon),
        error_energy=energy(error, horizon),
    )
