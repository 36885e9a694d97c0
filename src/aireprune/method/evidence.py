"""What was measured on data, layer by layer, in place of closed forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Measurements of the full model; None where nothing was measured.

    covariances: of the real states (Re x, Im x) of each layer, (*batch, 2n, 2n), in place of the Gramian P. Of a Mamba-2
    layer, the moments of its gates and states (2, groups, n, n), see `aireprune.method.projection`.
    scores: of each layer's removable states, (n,), for methods that score on data.
    counts: how many states (of every group) each layer should keep.
    """

    covariances: Sequence[np.ndarray | None] | None = None
    scores: Sequence[np.ndarray | None] | None = None
    counts: tuple[int, ...] | None = None

    def covariance(self, layer: int) -> np.ndarray | None:
        return None if self.covariances is None else self.covariances[layer]

    def score(self, layer: int) -> np.ndarray | None:
        return None if self.scores is None else self.scores[layer]
