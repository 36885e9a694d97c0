"""Mamba-2 in PyTorch: a classifier or a small language model, on the fused scan of `aireprune.kernels.ssd`.

Shapes: b batch, L time, D = d_inner channels in H heads, G groups of heads, N states per group. A layer has the
parameter names of transformers and mamba_ssm:

    in_proj.weight (2D + 2GN + H, d_model), rows [z | x | B | C | dt]   conv1d.weight (D + 2GN, 1, k), channels [x | B | C]
    dt_bias, A_log, D (H,)   norm.weight (D,)   out_proj.weight (d_model, D)

    y = out_proj( norm( scan(x, dt, B, C) silu(z) ) ) ,   the norm over the channels of each group

A projected layer has N' states whose gates are made from the N values of B and C by B_proj, C_proj (G N', N).

The model around the layers is that of `aireprune.models.selective`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.families.mamba2 import PROJECTIONS
from aireprune.kernels.conv import causal_conv
from aireprune.kernels.inputs import learns_here
from aireprune.kernels.mamba2_training import Sizes, mamba2_training
from aireprune.kernels.ssd import ssd_scan, ssd_step
from aireprune.models.mamba2_config import Mamba2Config
from aireprune.models.projection import gates
from aireprune.models.recurrence.mamba2 import Mamba2Family
from aireprune.models.selective import RMS_EPSILON, LayerCache, SelectiveLayer, SelectiveModel, draw_dt_bias

POLES = (1.0, 16.0)  # the range of -A at initialisation


class GatedNorm(nn.Module):
    """RMS norm over the channels of each group of y silu(z); y, z (b, L, D) -> (b, L, D)."""

    def __init__(self, width: int, groups: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.groups, self.epsilon = groups, RMS_EPSILON

    def forward(self, y: Tensor, z: Tensor) -> Tensor:
        gated = (y * F.silu(z)).unflatten(-1, (self.groups, -1))
        return F.rms_norm(gated, gated.shape[-1:], eps=self.epsilon).flatten(-2) * self.weight


class Mamba2Layer(SelectiveLayer):
    """u (b, L, d_model) -> (b, L, d_model)."""

    B_proj: nn.Parameter | None
    C_proj: nn.Parameter | None

    def __init__(self, config: Mamba2Config, states: int, values: int):
        super().__init__()
        d, self.heads, self.groups, self.states = config.inner, config.heads, config.n_groups, states
        channels = d + 2 * self.groups * values
        self.in_proj = nn.Linear(config.d_model, d + channels + self.heads, bias=config.bias)
        self.conv1d = nn.Conv1d(
            channels, channels, config.d_conv, groups=channels, padding=config.d_conv - 1, bias=config.conv_bias
        )
        self.dt_bias = nn.Parameter(torch.empty(self.heads))
        self.A_log = nn.Parameter(torch.empty(self.heads))
        self.D = nn.Parameter(torch.empty(self.heads))
        self.norm = GatedNorm(d, self.groups)
        self.out_proj = nn.Linear(d, config.d_model, bias=config.bias)
        for name in PROJECTIONS:
            matrix = None if values == states else nn.Parameter(torch.empty(self.groups * states, values))
            self.register_parameter(name, matrix)

    def scan_output(self, u: Tensor, cache: LayerCache | None = None) -> Tensor:
        d = self.out_proj.in_features
        width = (self.conv1d.out_channels - d) // 2
        parts = self.in_proj(u)
        if cache is None and self._learns_whole(parts):
            return self._learn(parts)
        z, xbc, dt = parts.split([d, d + 2 * width, self.heads], dim=-1)
        before = None if cache is None else cache.remember(xbc)
        x, b, c = causal_conv(xbc, self.conv1d.weight, self.conv1d.bias, before).split([d, width, width], dim=-1)
        per_group = (self.groups, width // self.groups)
        b, c = gates(b.unflatten(-1, per_group), self.B_proj), gates(c.unflatten(-1, per_group), self.C_proj)
        y = self._scan(x.unflatten(-1, (self.heads, -1)), dt, b, c, cache)
        out: Tensor = self.norm(y.flatten(-2), z)
        return out

    def _learns_whole(self, parts: Tensor) -> bool:
        """Whether the parts of the projection go through one function with a backward pass of its own."""
        norm = self.norm
        watched = norm._forward_hooks or norm._forward_pre_hooks or norm._backward_hooks or norm._backward_pre_hooks
        stock = type(norm) is GatedNorm and not watched and "forward" not in vars(norm)
        weights = (self.conv1d.weight, self.conv1d.bias, self.A_log, self.D, self.dt_bias, norm.weight)
        single = parts.dtype == torch.float32  # the kernel is compiled for nothing else
        return stock and single and self.B_proj is None and self.C_proj is None and learns_here(parts, *weights)

    def _learn(self, parts: Tensor) -> Tensor:
        conv, width = self.conv1d, self.out_proj.in_features // self.heads
        sizes = Sizes(heads=self.heads, width=width, groups=self.groups, states=self.states, eps=self.norm.epsilon)
        bias = conv.weight.new_zeros(len(conv.weight)) if conv.bias is None else conv.bias
        heads = (-torch.exp(self.A_log), self.D, self.dt_bias)
        return mamba2_training(parts, sizes, (conv.weight, bias), heads, self.norm.weight)

    def _scan(self, x: Tensor, dt: Tensor, b: Tensor, c: Tensor, cache: LayerCache | None) -> Tensor:
        """x (b, L, H, D/H), dt (b, L, H), b and c (b, L, G, N) -> y like x."""
        A = -torch.exp(self.A_log)
        if cache is not None and x.shape[1] == 1 and not torch.is_grad_enabled():
            step = (x[:, 0], dt[:, 0], A, b[:, 0], c[:, 0], self.D, self.dt_bias)
            return ssd_step(cache.state, *step)[:, None]
        y, final = ssd_scan(x, dt, A, b, c, self.D, self.dt_bias, initial=None if cache is None else cache.state)
        if cache is not None:
            cache.state = final
        return y

    def new_cache(self, batch: int) -> LayerCache:
        d, zeros = self.out_proj.in_features, self.A_log.new_zeros
        before = (batch, self.conv1d.kernel_size[0] - 1, self.conv1d.out_channels)
        return LayerCache(zeros(before), zeros(batch, self.heads, d // self.heads, self.states))


class Mamba2Model(SelectiveModel):
    """model(x, lengths=None) -> logits: (b, classes), or (b, L, tokens) in mode 'tokens'."""

    family = "mamba2"
    recurrence = Mamba2Family()
    config: Mamba2Config

    def __init__(self, config: Mamba2Config):
        values = iter(config.gate_sizes)
        super().__init__(config, lambda states: Mamba2Layer(config, states, next(values)))


def initialize(model: Mamba2Model, seed: int = 0) -> Mamba2Model:
    """The initialisation of the Mamba-2 paper: -A uniform in [1, 16], D = 1, steps log-uniform in [dt_min, dt_max].

    Projections and convolutions are torch's own, drawn from the seed.
    """
    config = model.config
    torch.manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Conv1d):
                module.reset_parameters()
        for module in model.modules():
            if isinstance(module, Mamba2Layer):
                module.A_log.uniform_(*POLES).log_()
                module.D.fill_(1)
                module.dt_bias.copy_(draw_dt_bias(module.heads, config.dt_min, config.dt_max))
                for matrix in (module.B_proj, module.C_proj):
                    if matrix is not None:
                        nn.init.xavier_normal_(matrix)
    return model
