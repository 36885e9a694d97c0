"""A cut of an array that holds the states of only one of a layer's groups, as in a layer of two directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aireprune.arrays import Shape
from aireprune.families.cuts import Cut


@dataclass(frozen=True)
class GroupCut:
    """The cut of an array along whose axis lie `count` states of the layer, from state `first` on."""

    cut: Cut
    first: int
    count: int

    def _own(self, kept: np.ndarray) -> np.ndarray:
        """The kept states of this group, counted from its first."""
        return kept[(kept >= self.first) & (kept < self.first + self.count)] - self.first

    def mask(self, values: np.ndarray, kept: np.ndarray) -> np.ndarray:
        return self.cut.mask(values, self._own(kept))

    def remove(self, values: np.ndarray, kept: np.ndarray, size: int | None = None) -> np.ndarray:
        return self.cut.remove(values, self._own(kept), size)

    def entries(self, shape: Shape) -> int:
        return self.cut.entries(shape)
