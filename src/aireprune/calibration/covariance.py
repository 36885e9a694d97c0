"""Measured covariances of the states of the full model, for balancing, refitting and projecting (docs/method.md section 5).

Every layer is driven by what it reads in the full model. E of (Re x, Im x) takes the place of the closed-form P, which
is the same under white noise. The states are those of the layer as `ModalSystem`, so that the covariance is in the
basis the reductions work in. Both directions of a bidirectional layer are averaged.

Of a Mamba-2 layer, the moments of its gates and states are measured (`aireprune.calibration.head_moments`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from aireprune.calibration.calls import Call
from aireprune.calibration.head_mixers import HeadMixer
from aireprune.calibration.head_moments import HeadMoments
from aireprune.calibration.inputs import Inputs, learning
from aireprune.calibration.moments import gram
from aireprune.calibration.readouts import MODES_AT_ONCE
from aireprune.calibration.response import Response, response
from aireprune.calibration.sampling import stride_for
from aireprune.calibration.sites import Site
from aireprune.calibration.subject import Subject
from aireprune.calibration.team import share, total, total_number
from aireprune.calibration.watching import watch
from aireprune.kernels.channel_states import channel_features
from aireprune.method.system import ModalSystem

ROWS = 2**13  # time steps from which the covariance of one channel is taken
LIFT = 1e-9  # of the mean variance, added to every variance


def measured_covariances(full: Subject, inputs: Inputs) -> list[np.ndarray | None]:
    """Covariances of the real states of every layer, (*batch, 2n, 2n).

    Of Mamba-2 layers, the moments M and P, (2, groups, N, N), on the inputs that are not held out: the others judge what
    is made of them. None for other selective layers, for layers whose inside is not known, and for those that are not
    called.
    """
    few = learning(inputs)
    linear = {
        site.layer.name: _Watch(site, response(site.layer, full.arrays), inputs.batches)
        for site in full.sites
        if site.lti
    }
    heads = {
        site.layer.name: _HeadWatch(HeadMixer(full.module.get_submodule(site.module), site.layer), len(few))
        for site in full.sites
        if site.layer.family == "mamba2" and site.gates
    }
    for watches, numbers in ((linear, range(inputs.batches)), (heads, few)):
        if watches:
            watch(full, (inputs[number] for number in share(numbers)), {name: one.add for name, one in watches.items()})
    found = linear | heads
    return [found[layer.name].covariance() if layer.name in found else None for layer in full.layers]


class _Watch:
    """Adds up what a linear layer reads."""

    def __init__(self, site: Site, layer: Response, batches: int):
        self.site, self.layer, self.batches = site, layer, batches
        self.moments: StateMoments | None = None

    def add(self, call: Call) -> None:
        u = self.site.read(call).float()
        if self.moments is None:
            tokens = u.shape[0] * u.shape[1] * self.batches
            self.moments = StateMoments(self.layer, tokens)
        self.moments.add(u)

    def covariance(self) -> np.ndarray | None:
        if self.moments is None:
            return None
        self.moments.gather()
        return self.moments.covariance()


class _HeadWatch:
    """Adds up what happens inside a Mamba-2 layer."""

    def __init__(self, mixer: HeadMixer, batches: int):
        self.mixer, self.batches = mixer, batches
        self.moments: HeadMoments | None = None

    def add(self, call: Call) -> None:
        if self.moments is None:
            self.moments = HeadMoments(self.mixer, call.first[..., 0].numel() * self.batches)
        self.moments.add(self.mixer.inside(call))

    def covariance(self) -> np.ndarray | None:
        if self.moments is None:
            return None
        self.moments.gather()
        return self.moments.moments()


class StateMoments:
    """The sum of x x' over tokens and directions, for one system or one per channel.

    tokens: how many will be added; of more than `ROWS`, channels are seen on every stride-th step.
    """

    def __init__(self, layer: Response, tokens: int):
        self.layer, self.stride, self.rows = layer, stride_for(tokens, ROWS), 0
        n = layer.system.modes
        self.sum = torch.zeros((*layer.system.batch, 2 * n, 2 * n), dtype=torch.float64)

    @property
    def system(self) -> ModalSystem:
        return self.layer.system

    def add(self, u: Tensor) -> None:
        """u (b, L, h): all inputs of one system, or one channel per system."""
        if self.system.modes == 0:
            return
        if not self.system.batch:
            x = self.layer.states(u).flatten(0, 2)
            self.rows += len(x)
            self.sum += gram(x)
            return
        lam, size = torch.from_numpy(self.system.lam), max(1, MODES_AT_ONCE // self.system.modes)
        stride = min(self.stride, u.shape[1])
        self.rows += u.shape[0] * (u.shape[1] // stride) * self.system.directions
        channels = torch.arange(u.shape[-1])
        for start in range(0, u.shape[-1], size):
            part = slice(start, start + size)
            x = channel_features(lam[part], u, channels[part], stride, self.system.directions)
            self.sum[part] += sum(gram(one) for one in x.chunk(self.system.directions, -1))

    def gather(self) -> None:
        """Add what other processes of the team have seen."""
        total(self.sum)
        self.rows = total_number(self.rows)

    def covariance(self) -> np.ndarray:
        p = (self.sum / max(self.rows, 1)).numpy()
        if self.system.batch:  # the states were driven by u itself
            p = _driven(p, self.system.b[..., 0])
        variance = np.diagonal(p, axis1=-2, axis2=-1)
        lift = LIFT * variance.mean(-1) if p.shape[-1] else np.zeros(p.shape[:-2])
        return np.asarray((p + np.swapaxes(p, -1, -2)) / 2 + lift[..., None, None] * np.eye(p.shape[-1]))


def _driven(p: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The covariance of (Re bx, Im bx) from that of (Re x, Im x): both are rotations and scalings of every mode."""
    n = b.shape[-1]
    t = np.zeros((*b.shape[:-1], 2 * n, 2 * n))
    i = np.arange(n)
    t[..., i, i], t[..., i, n + i], t[..., n + i, i], t[..., n + i, n + i] = b.real, -b.imag, b.imag, b.real
    return np.asarray(t @ p @ np.swapaxes(t, -1, -2))
