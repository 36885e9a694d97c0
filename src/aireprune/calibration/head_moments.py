"""What the gates and states of a Mamba-2 layer do on data: the moments that its projection is made from.

M = E[C_t C_t'] over all tokens, and P = E[sum of h_t h_t'] over the heads and channels of a group, on every stride-th
token. So tr(M P) is E|y_t|^2 of the group, if C_t and h_t are independent.
"""

from __future__ import annotations

import numpy as np
import torch

from aireprune.calibration.head_mixers import HeadMixer, HeadSignals
from aireprune.calibration.moments import gram
from aireprune.calibration.sampling import stride_for
from aireprune.calibration.team import total, total_number
from aireprune.errors import AireError

VECTORS = 2**21  # states of single channels whose products are added up
FEWEST = 512  # tokens on which they are


class HeadMoments:
    """Sums over batches. tokens: how many there will be."""

    def __init__(self, mixer: HeadMixer, tokens: int):
        self.mixer, self.tokens, self.steps = mixer, 0, 0
        self.stride = stride_for(tokens, max(VECTORS // mixer.channels, FEWEST))
        groups = mixer.layer.groups
        n = mixer.layer.states // groups
        self.readout, self.states = torch.zeros(2, groups, n, n, dtype=torch.float64)

    def add(self, inside: HeadSignals) -> None:
        self.tokens += inside.c[..., 0, 0].numel()
        self.readout += gram(inside.c.flatten(0, 1).transpose(0, 1))
        stride = min(self.stride, inside.c.shape[1])
        for h in self.mixer.states(inside, stride):
            self.steps += len(h)
            per_group = h.unflatten(1, (len(self.states), -1)).transpose(0, 1).flatten(1, 3)  # (G, vectors, N)
            self.states += gram(per_group)

    def gather(self) -> None:
        """Add what other processes of the team have seen."""
        total(self.readout, self.states)
        self.tokens, self.steps = total_number(self.tokens), total_number(self.steps)

    def moments(self) -> np.ndarray:
        """(2, G, N, N), M and P; raises if they were added up over fewer tokens than they have directions."""
        n = self.readout.shape[-1]
        if self.tokens < n:
            raise AireError(
                f"Layer {self.mixer.layer.name} has {n} states per group, and what its gates do is measured on at least as "
                f"many tokens; the calibration inputs have {self.tokens}, without what is held out. Give more or longer "
                "sequences."
            )
        return torch.stack([self.readout / max(self.tokens, 1), self.states / max(self.steps, 1)]).numpy()
