"""The inside of a Mamba-2 mixer, read from the attributes that every implementation gives it.

    z, x, B, C, dt = in_proj(u) ;  x, B, C = silu(conv1d([x | B | C])) ;
    y = out_proj( norm( scan(x, dt, B, C) + D x , z ) )           norm: gated by silu(z); without one, the gate alone

transformers, mamba_ssm and our own models agree on these names. Whether a given module also computes this is tested by
comparing `HeadMixer.output` with its own (`aireprune.calibration.sites`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.calibration.calls import Call
from aireprune.calibration.mixers import masked
from aireprune.families import Layer
from aireprune.families.mamba2 import PROJECTIONS, Mamba2Options
from aireprune.kernels.conv import causal_conv
from aireprune.kernels.ssd import ssd_scan
from aireprune.models.projection import gates

PARTS = ("in_proj", "conv1d", "A_log", "dt_bias", "D", "out_proj")


@dataclass(frozen=True)
class HeadSignals:
    """What happens inside: x (b, L, H, P), the raw step (b, L, H), B and C (b, L, G, N), z (b, L, H P)."""

    x: Tensor
    dt: Tensor
    b: Tensor
    c: Tensor
    z: Tensor


@dataclass(frozen=True)
class HeadMixer:
    """A Mamba-2 layer. module: anything with PARTS."""

    module: Any
    layer: Layer[Mamba2Options]

    @property
    def channels(self) -> int:
        return self.layer.options.first_channel

    def signals(self, u: Tensor, mask: Tensor | None = None) -> HeadSignals:
        m, d, groups = self.module, self.channels, self.layer.groups
        width = groups * self.layer.options.values
        everything = m.in_proj(masked(u, mask) * getattr(m, "ssm_in_multiplier", 1.0)) * getattr(m, "mup_vector", 1.0)
        _, z, xbc, dt = everything.split(
            [self.layer.options.first_row - 2 * d, d, d + 2 * width, m.A_log.shape[0]], dim=-1
        )
        xbc = masked(causal_conv(xbc, m.conv1d.weight, m.conv1d.bias), mask)
        x, b, c = xbc.split([d, width, width], dim=-1)
        b, c = (
            gates(values.unflatten(-1, (groups, -1)), getattr(m, name, None))
            for values, name in zip((b, c), PROJECTIONS, strict=True)
        )
        return HeadSignals(x.unflatten(-1, (len(m.A_log), -1)), dt, b, c, z)

    def inside(self, call: Call) -> HeadSignals:
        """What happens inside when the module is called."""
        return self.signals(call.first, call.named(self.module, "attention_mask"))

    def scan(self, inside: HeadSignals, b: Tensor, c: Tensor, skip: Tensor | None = None) -> Tensor:
        """What gates b and c (b, L, G, N) make of the input, plus skip (H,) times x; (b, L, H P)."""
        return self._scan(inside, slice(None), b, c, skip)[0].flatten(-2)

    def states(self, inside: HeadSignals, stride: int) -> Iterator[Tensor]:
        """h (b, H, P, N) after every stride-th step."""
        state, nothing = None, torch.zeros_like(inside.c)
        for start in range(0, inside.x.shape[1] - stride + 1, stride):
            part = slice(start, start + stride)
            state = self._scan(inside, part, inside.b, nothing, None, state)[1]
            yield state

    def _scan(
        self, inside: HeadSignals, part: slice, b: Tensor, c: Tensor, skip: Tensor | None, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        m = self.module
        poles, none = -torch.exp(m.A_log.float()), torch.zeros_like(m.A_log)
        limits = getattr(m, "time_step_limit", getattr(m, "dt_limit", (0.0, float("inf"))))
        given = (inside.x[:, part], inside.dt[:, part], poles, b[:, part], c[:, part], none if skip is None else skip)
        return ssd_scan(*given, m.dt_bias, limits, state)

    def output(self, inside: HeadSignals) -> Tensor:
        m = self.module
        y = self.scan(inside, inside.b, inside.c, m.D)
        normed = getattr(m, "norm", None) is not None and getattr(m, "mamba_rms_norm", getattr(m, "rmsnorm", True))
        y = m.norm(y, inside.z) if normed else y * F.silu(inside.z)
        out: Tensor = m.out_proj(y.to(inside.z.dtype))
        return out


def open_head_mixer(module: nn.Module, layer: Layer[Mamba2Options]) -> HeadMixer | None:
    """The module as a Mamba-2 mixer; None if parts are missing or are not what they are called."""
    parts: list[Any] = [getattr(module, name, None) for name in PARTS]
    if any(part is None for part in parts) or parts[4].shape != parts[2].shape:  # D may be one number per channel
        return None
    linear = isinstance(parts[0], nn.Linear) and isinstance(parts[5], nn.Linear)
    return HeadMixer(module, layer) if linear and isinstance(parts[1], nn.Conv1d) else None
