"""The inside of a Mamba-1 mixer, read from the attributes that every implementation gives it.

    x_t, z_t = in_proj(u_t) ;  x = silu(conv1d(x)) ;  dt, B, C = x_proj(x) (normalised in some models) ;
    y = out_proj( silu(z) * ( scan(x, dt_proj(dt), A, B, C) + D x ) )

transformers, mamba_ssm, mambapy and our own models agree on these names. Whether a given module also computes this is
tested by comparing `Mixer.output` with its own (`aireprune.calibration.sites`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.kernels.conv import causal_conv
from aireprune.kernels.selective import selective_scan

PARTS = ("in_proj", "conv1d", "x_proj", "dt_proj", "A_log", "D", "out_proj")
NORMS = (("dt_layernorm",), ("b_layernorm", "B_layernorm"), ("c_layernorm", "C_layernorm"))


@dataclass(frozen=True)
class Signals:
    """What happens inside: x and the gate s (b, L, D), the raw step (b, L, D), B and C (b, L, N)."""

    x: Tensor
    s: Tensor
    dt: Tensor
    b: Tensor
    c: Tensor


@dataclass(frozen=True)
class Mixer:
    """A Mamba-1 layer. module: anything with PARTS."""

    module: Any

    @property
    def channels(self) -> int:
        return int(self.module.A_log.shape[0])

    @property
    def states(self) -> int:
        return int(self.module.A_log.shape[1])

    @property
    def rank(self) -> int:
        return int(self.module.dt_proj.weight.shape[1])

    @property
    def d(self) -> nn.Parameter:
        found: nn.Parameter = self.module.D
        return found

    @property
    def out_weight(self) -> Tensor:
        found: Tensor = self.module.out_proj.weight
        return found

    @property
    def c_rows(self) -> Tensor:
        """W_C, the rows of x_proj that make C; a view."""
        weight: Tensor = self.module.x_proj.weight
        return weight[self.rank + self.states :]

    @property
    def c_norm(self) -> Callable[[Tensor], Tensor] | None:
        return self._norm(NORMS[2])

    @property
    def c_scale(self) -> nn.Parameter | None:
        """The weight of the norm of C, if it has one that is learnt."""
        weight = getattr(self.c_norm, "weight", None)
        return weight if isinstance(weight, nn.Parameter) else None

    def _norm(self, names: tuple[str, ...]) -> Callable[[Tensor], Tensor] | None:
        found = [getattr(self.module, name) for name in names if getattr(self.module, name, None) is not None]
        return found[0] if found else None

    def signals(self, u: Tensor, mask: Tensor | None = None) -> Signals:
        m = self.module
        x, z = m.in_proj(masked(u, mask)).chunk(2, dim=-1)
        x = masked(causal_conv(x, m.conv1d.weight, m.conv1d.bias), mask)
        parts = m.x_proj(x).split([self.rank, self.states, self.states], dim=-1)
        norms = [self._norm(names) for names in NORMS]
        dt, b, c = (part if norm is None else norm(part) for part, norm in zip(parts, norms, strict=True))
        return Signals(x, F.silu(z), F.linear(dt, m.dt_proj.weight), b, c)

    def state(self, inside: Signals, j: int) -> Tensor:
        """h_t[:, j] of all channels, (b, L, D)."""
        pole = -torch.exp(self.module.A_log[:, j : j + 1].float())
        one = torch.ones_like(inside.b[..., :1])
        b = inside.b[..., j : j + 1]
        return selective_scan(inside.x, inside.dt, pole, b, one, None, self.module.dt_proj.bias)[0]

    def output(self, inside: Signals) -> Tensor:
        poles = -torch.exp(self.module.A_log.float())
        given = (inside.x, inside.dt, poles, inside.b, inside.c, self.d, self.module.dt_proj.bias)
        y: Tensor = self.module.out_proj((selective_scan(*given)[0] * inside.s).to(inside.x.dtype))
        return y


def open_mixer(module: nn.Module) -> Mixer | None:
    """The module as a Mamba-1 mixer; None if parts are missing or are not what they are called."""
    parts = [getattr(module, name, None) for name in PARTS]
    linear = all(isinstance(parts[i], nn.Linear) for i in (0, 2, 3, 6))
    if any(part is None for part in parts) or not linear or not isinstance(parts[1], nn.Conv1d):
        return None
    return Mixer(module)


def masked(x: Tensor, mask: Tensor | None) -> Tensor:
    """Padding tokens are zeroed, as transformers does."""
    return x if mask is None else (x * mask[:, :, None]).to(x.dtype)
