"""Measured covariances of the states of the full model, for balancing and refitting (docs/method.md section 5).

Every layer is driven by what it reads in the full model. E of (Re x, Im x) takes the place of the closed-form P, which
is the same under white noise. The states are those of the layer as `ModalSystem`, so that the covariance is in the
basis the reductions work in. Both directions of a bidirectional layer are averaged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.calibration.inputs import Inputs
from aireprune.calibration.moments import TOKENS
from aireprune.calibration.stack import open_stack
from aireprune.errors import AireError
from aireprune.families import Found
from aireprune.kernels.scan import diagonal_scan
from aireprune.method.system import ModalSystem
from aireprune.models.evaluation import evaluation_mode

LIFT = 1e-9  # of the mean variance, added to every variance
MODES_AT_ONCE = 256  # modes whose states are held together when channels are independent


@torch.no_grad()
def measured_covariances(model: nn.Module, found: Found, inputs: Inputs) -> list[np.ndarray]:
    """Covariances of the real states of every layer, (*batch, 2n, 2n), in one pass over the inputs.

    found: the model's layers.
    """
    systems = [found.system(number, "a measured covariance") for number in range(len(found.layers))]
    stack = open_stack(model)
    if len(systems) != stack.depth:
        raise AireError(f"The model has {stack.depth} layers, of which {len(systems)} are state space layers.")
    sums = [StateMoments(system) for system in systems]
    with evaluation_mode(model):
        for x in inputs:
            z = stack.encode(x)
            for i, moments in enumerate(sums):
                u = stack.read(i, z)
                moments.add(u)
                z = stack.join(i, z, stack.put_out(i, u))
    return [moments.covariance() for moments in sums]


class StateMoments:
    """The sum of x x' over tokens and directions, for one system or one per channel."""

    def __init__(self, system: ModalSystem):
        self.system, self.tokens = system, 0
        self.sum = torch.zeros((*system.batch, 2 * system.modes, 2 * system.modes), dtype=torch.float64)
        self.lam, self.b = torch.from_numpy(system.lam), torch.from_numpy(system.b)

    def add(self, u: Tensor) -> None:
        """u (b, L, h): all inputs of one system, or one channel per system."""
        if self.system.modes == 0:
            return
        self.tokens += u.shape[0] * u.shape[1] * self.system.directions
        if not self.system.batch:
            into = torch.cat([self.b.real, self.b.imag]).to(u.dtype)
            x = diagonal_scan(self.lam, u @ into.T, self.system.directions == 2)
            self.sum += _gram(x.flatten(0, 2))
            return
        size = max(1, MODES_AT_ONCE // self.system.modes)
        for start in range(0, u.shape[-1], size):
            part = slice(start, start + size)
            self.sum[part] += _gram(self._channel_states(part, u[..., part]))

    def _channel_states(self, part: slice, u: Tensor) -> Tensor:
        """States of some channels, (g, tokens and directions, 2n)."""
        lam, b = self.lam[part], self.b[part, :, 0]
        drive = [(u[..., None] * gain.to(u.dtype)).flatten(2) for gain in (b.real, b.imag)]
        x = diagonal_scan(lam.flatten(), torch.cat(drive, -1), self.system.directions == 2)
        return x.reshape(-1, 2, *lam.shape).permute(2, 0, 1, 3).flatten(2)

    def covariance(self) -> np.ndarray:
        p = (self.sum / max(self.tokens, 1)).numpy()
        variance = np.diagonal(p, axis1=-2, axis2=-1)
        lift = LIFT * variance.mean(-1) if p.shape[-1] else np.zeros(p.shape[:-2])
        return np.asarray((p + np.swapaxes(p, -1, -2)) / 2 + lift[..., None, None] * np.eye(p.shape[-1]))


def _gram(x: Tensor) -> Tensor:
    """x' x in double precision, over the second to last axis."""
    parts: Sequence[Tensor] = [part.double() for part in x.split(TOKENS, -2)]
    return torch.stack([part.mT @ part for part in parts]).sum(0)
