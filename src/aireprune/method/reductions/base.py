"""What every reduction returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aireprune.errors import AireError
from aireprune.method.system import ModalSystem


@dataclass(frozen=True)
class Reduction:
    """A smaller layer and what it costs. Arrays have the batch shape of the layer (one entry per channel in S4D)."""

    method: str
    system: ModalSystem  # the reduced layer; a ragged batch is filled up with silent modes at the end
    error: ModalSystem  # full minus reduced, for certificates
    order: np.ndarray  # (*batch,) stored modes that are left
    kept: np.ndarray | None  # (*batch, n) of bool; None where the modes are new
    energy: np.ndarray  # (*batch,) exact energy of the full layer
    error_energy: np.ndarray  # (*batch,) exact squared H2 error
    hankel: np.ndarray | None = None  # (*batch, 2n) Hankel singular values, descending
    tail: np.ndarray | None = None  # (*batch,) 2 * sum of the truncated ones; None if they promise nothing
    notes: tuple[str, ...] = ()  # what went another way than planned

    @property
    def relative_error(self) -> float:
        """H2 error of the whole layer, relative to its H2 norm."""
        total = float(self.energy.sum())
        return float(np.sqrt(self.error_energy.sum() / total)) if total > 0 else 0.0


def as_mask(system: ModalSystem, kept: np.ndarray) -> np.ndarray:
    """Kept modes as bools (*batch, n), given as such or, for a single system, as indices."""
    kept = np.asarray(kept)
    shape = (*system.batch, system.modes)
    if kept.dtype == bool and kept.shape == shape:
        return kept
    fits = kept.ndim == 1 and len(np.unique(kept)) == len(kept) and (kept >= 0).all() and (kept < system.modes).all()
    if system.batch or kept.dtype == bool or not fits:
        raise AireError(f"Kept modes are distinct indices below {system.modes}, or bools of shape {shape}.")
    mask = np.zeros(system.modes, dtype=bool)
    mask[kept.astype(int)] = True
    return mask
