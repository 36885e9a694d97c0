"""What a linear, time-invariant layer puts out, and the states its readout reads: `ModalSystem` on torch tensors.

u (b, L, h) -> y (b, L, o). Layers of channels (S4D) are a batch of h systems with one input and one output each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from aireprune.arrays import NamedArrays
from aireprune.families import Layer
from aireprune.families.found import lti_family
from aireprune.kernels.s4d import s4d
from aireprune.kernels.scan import diagonal_scan
from aireprune.method.system import ModalSystem


@dataclass(frozen=True)
class Response:
    """A layer y = s Re(c x) + D u. skip: D, one number per channel (o,) or a matrix (o, h); None where there is none."""

    system: ModalSystem
    skip: np.ndarray | None

    @property
    def width(self) -> int:
        """Channels of the input."""
        return self.system.batch[0] if self.system.batch else self.system.inputs

    @property
    def can_be_fitted(self) -> bool:
        """Channels with several outputs each would need a layout of outputs that nobody states."""
        return len(self.system.batch) < 2 and (not self.system.batch or self.system.inputs == self.system.outputs == 1)

    @property
    def own_skip(self) -> bool:
        """Whether D has one number per output, which can be fitted together with the readout."""
        outputs = self.width if self.system.batch else self.system.outputs
        return self.skip is not None and self.skip.shape == (outputs,) and outputs == self.width

    def __call__(self, u: Tensor) -> Tensor:
        y = self._channels(u) if self.system.batch else self._shared(u)
        if self.skip is None:
            return y
        d = torch.from_numpy(self.skip).to(u.dtype)
        return y + (u * d if self.own_skip else u @ d.T)

    def states(self, u: Tensor) -> Tensor:
        """[Re x | Im x] of one system, (b, L, d, 2n)."""
        b = torch.from_numpy(self.system.b)
        into = torch.cat([b.real, b.imag]).to(u.dtype)
        return diagonal_scan(torch.from_numpy(self.system.lam), u @ into.T, self.system.directions == 2)

    def _shared(self, u: Tensor) -> Tensor:
        c = self.system.share * self.system.c  # (d, o, n)
        out_of = torch.from_numpy(np.concatenate([c.real, -c.imag], -1)).to(u.dtype)  # (d, o, 2n)
        return self.states(u).flatten(2) @ out_of.permute(0, 2, 1).flatten(0, 1)

    def _channels(self, u: Tensor) -> Tensor:
        system = self.system
        lam, zero = torch.from_numpy(system.lam), u.new_zeros(self.width)
        gains = torch.from_numpy(system.share * system.c[:, :, 0] * system.b[:, None, :, 0])  # (h, d, n)
        y = s4d(lam, gains[:, 0].contiguous(), zero, u)
        if system.directions == 2:
            y = y + s4d(lam, gains[:, 1].contiguous(), zero, u.flip(1)).flip(1)
        return y


def response(layer: Layer[object], arrays: NamedArrays) -> Response:
    """A layer as its tensors say; an error if it is not linear and time-invariant."""
    system = lti_family(layer, "a calibrated readout").system(layer, arrays)
    skip = None if layer.feedthrough is None else np.asarray(arrays[layer.feedthrough], np.float64)
    if skip is not None and skip.ndim == 2 and 1 in skip.shape and system.batch:  # (channels, h) of the S4 repository
        skip = skip.reshape(-1)
    return Response(system, skip)
