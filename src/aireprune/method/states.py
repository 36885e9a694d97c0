"""What is scored: the modes of each removable state of a layer.

n removable states, m modes per state, d directions (2 for a bidirectional layer, else 1). One mode is
x_k = lam x_{k-1} + b u_k, y_k = c x_k with |lam| = exp(log_radius); a stored conjugate half counts as one mode.
The radius is kept as its logarithm because 1 - |lam|^2 = -expm1(2 log|lam|) has no cancellation near |lam| = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aireprune.errors import AireError


@dataclass(frozen=True)
class LayerStates:
    """Poles and squared gains of one layer's removable states.

    groups > 1 says that the n states come in that many groups of equal size, of which equally many must stay.
    """

    name: str
    log_radius: np.ndarray  # (n, m)
    angle: np.ndarray  # (n, m)
    b2: np.ndarray  # (n, m)  squared norm of the mode's row of the discretised B
    c2: np.ndarray  # (d, n, m)  squared norm of the mode's column of C, per direction
    groups: int = 1
    cross: np.ndarray | None = None  # (n, m)  (sum b^2)(sum c^2), mean over directions, where Re(c lam^t b) is read

    def __post_init__(self) -> None:
        shape = self.log_radius.shape
        if len(shape) != 2 or self.angle.shape != shape or self.b2.shape != shape or self.c2.shape[1:] != shape:
            raise ValueError(
                f"{self.name}: shapes {shape}, {self.angle.shape}, {self.b2.shape}, {self.c2.shape} do not fit."
            )
        if self.groups < 1 or shape[0] % self.groups:
            raise ValueError(f"{self.name}: {shape[0]} states do not divide into {self.groups} groups.")
        for what, values in (("b2", self.b2), ("c2", self.c2), ("angle", self.angle)):
            if not np.isfinite(values).all():
                raise AireError(f"Layer {self.name}: {what} is not finite for some states.")
        if np.isnan(self.log_radius).any():
            raise AireError(f"Layer {self.name}: some poles are not a number.")

    def __len__(self) -> int:
        return len(self.log_radius)

    @property
    def radius(self) -> np.ndarray:
        return np.exp(self.log_radius)

    @property
    def mean_c2(self) -> np.ndarray:
        """c^2 of docs/method.md: the mean over directions. (n, m)"""
        return self.c2.mean(axis=0)

    @property
    def unstable(self) -> np.ndarray:
        """States with a pole on or outside the unit circle, (n,) of bool: their energy is infinite."""
        return np.asarray((self.log_radius >= 0).any(axis=1))

    @property
    def silent(self) -> np.ndarray:
        """States without any gain, (n,) of bool: masked ones, and those that fill up rows or layers."""
        return np.asarray(((self.b2 == 0) | (self.c2 == 0).all(axis=0)).all(axis=1))

    @property
    def margin(self) -> float:
        """Stability margin: the smallest 1 - |lam| of the layer (1 for a layer without states)."""
        return float(-np.expm1(self.log_radius.max())) if self.log_radius.size else 1.0


def from_modes(
    name: str,
    log_radius: np.ndarray,
    angle: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
) -> LayerStates:
    """States of a MIMO layer with one mode each: poles (n,), discretised b (n, h), readouts c (d, o, n)."""
    b2 = (np.abs(b) ** 2).sum(axis=1)
    c2 = (np.abs(c) ** 2).sum(axis=1)
    cross = (b**2).sum(axis=1) * (c**2).sum(axis=1).mean(axis=0)
    return LayerStates(name, log_radius[:, None], angle[:, None], b2[:, None], c2[:, :, None], cross=cross[:, None])
