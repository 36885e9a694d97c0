"""Mamba-1 in PyTorch: a classifier or a small language model, on the fused selective scan.

Shapes: b batch, L time, D = d_inner channels, N states, R = dt_rank. A layer has the parameter names of mamba_ssm:

    in_proj.weight (2D, d_model)   conv1d.weight (D, 1, k)   x_proj.weight (R + 2N, D)
    dt_proj.weight (D, R), dt_proj.bias (D,)   A_log (D, N)   D (D,)   out_proj.weight (d_model, D)

Around the layers: input_proj, norms.i (before layer i, where there are any), norm, classifier. Every layer may have its
own number of states, zero included. With a cache the same forward continues a sequence, one step or many at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.kernels.conv import causal_conv
from aireprune.kernels.selective import selective_scan, selective_step
from aireprune.models.heads import make_head, pooled
from aireprune.models.mamba_config import MambaConfig


@dataclass
class LayerCache:
    """What a layer remembers: the last inputs of the convolution (b, k - 1, D) and the state (b, D, N)."""

    inputs: Tensor
    state: Tensor


class MambaLayer(nn.Module):
    """u (b, L, d_model) -> (b, L, d_model)."""

    def __init__(self, config: MambaConfig, states: int):
        super().__init__()
        d, self.rank, self.states = config.inner, config.rank, states
        self.in_proj = nn.Linear(config.d_model, 2 * d, bias=config.bias)
        self.conv1d = nn.Conv1d(d, d, config.d_conv, groups=d, padding=config.d_conv - 1, bias=config.conv_bias)
        self.x_proj = nn.Linear(d, self.rank + 2 * states, bias=False)
        self.dt_proj = nn.Linear(self.rank, d)
        self.A_log = nn.Parameter(torch.empty(d, states))
        self.D = nn.Parameter(torch.empty(d))
        self.out_proj = nn.Linear(d, config.d_model, bias=config.bias)

    def extra_repr(self) -> str:
        return f"states={self.states}"

    def forward(self, u: Tensor, cache: LayerCache | None = None) -> Tensor:
        out: Tensor = self.out_proj(self.scan_output(u, cache))
        return out

    def scan_output(self, u: Tensor, cache: LayerCache | None = None) -> Tensor:
        """What out_proj reads, (b, L, D); a cache is read and brought up to date in place."""
        x, z = self.in_proj(u).chunk(2, dim=-1)
        before = None if cache is None else cache.inputs
        if cache is not None:
            kept = cache.inputs.shape[1]
            cache.inputs = torch.cat([cache.inputs, x[:, -kept:]], 1)[:, -kept:] if kept else cache.inputs
        x = causal_conv(x, self.conv1d.weight, self.conv1d.bias, before)
        dt, b, c = self.x_proj(x).split([self.rank, self.states, self.states], dim=-1)
        dt, A = F.linear(dt, self.dt_proj.weight), -torch.exp(self.A_log)
        if cache is not None and x.shape[1] == 1 and not torch.is_grad_enabled():
            step = (x[:, 0], dt[:, 0], A, b[:, 0], c[:, 0], self.D, self.dt_proj.bias, z[:, 0])
            return selective_step(cache.state, *step)[:, None]
        state = None if cache is None else cache.state
        y, final = selective_scan(x, dt, A, b, c, self.D, self.dt_proj.bias, z, state, reuse_dt=True)
        if cache is not None:
            cache.state = final
        return y

    def new_cache(self, batch: int) -> LayerCache:
        d, n = self.A_log.shape
        zeros = self.A_log.new_zeros
        return LayerCache(zeros(batch, self.conv1d.kernel_size[0] - 1, d), zeros(batch, d, n))


def make_norm(kind: str, width: int) -> nn.Module:
    if kind == "none":
        return nn.Identity()
    return nn.LayerNorm(width) if kind == "layer" else nn.RMSNorm(width, eps=1e-5)


class MambaModel(nn.Module):
    """model(x, lengths=None) -> logits: (b, classes), or (b, L, tokens) in mode 'tokens'.

    x is (b, L, d_input), or integer tokens (b, L) which stand for their one-hot vectors. With lengths (b,), pooling
    uses only the first lengths[i] steps of sequence i.
    """

    family = "mamba"

    def __init__(self, config: MambaConfig):
        super().__init__()
        self.config = config
        self.input_proj = nn.Linear(config.d_input, config.d_model)
        self.layers = nn.ModuleList(MambaLayer(config, states) for states in config.state_sizes)
        self.norms = nn.ModuleList(make_norm(config.norm, config.d_model) for _ in range(config.layers))
        self.norm = make_norm(config.final_norm, config.d_model)
        self.drop = nn.Dropout(config.dropout)
        self.classifier = make_head(config.d_model, config.d_output, config.retrieval)

    def encode(self, x: Tensor) -> Tensor:
        if x.dtype in (torch.int64, torch.int32, torch.uint8):
            return F.embedding(x.long(), self.input_proj.weight.T) + self.input_proj.bias
        z: Tensor = self.input_proj(x)
        return z

    def features(self, x: Tensor, caches: list[LayerCache] | None = None) -> Tensor:
        """The stack's output before pooling, (b, L, d_model)."""
        z = self.encode(x)
        for i, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            out = self.drop(layer(norm(z), None if caches is None else caches[i]))
            z = z + out if self.config.residual else out
        return z

    def forward(self, x: Tensor, lengths: Tensor | None = None, caches: list[LayerCache] | None = None) -> Tensor:
        logits: Tensor = self.classifier(self.norm(pooled(self.features(x, caches), lengths, self.config.mode)))
        return logits

    def new_caches(self, batch: int) -> list[LayerCache]:
        """Empty caches, one per layer; hand them to every further call to continue the same sequences."""
        return [layer.new_cache(batch) for layer in self.layers]  # type: ignore[operator]


def initialize(model: MambaModel, seed: int = 0) -> MambaModel:
    """The initialisation of the Mamba paper: A_log = log(1..N), D = 1, steps log-uniform in [dt_min, dt_max]."""
    config = model.config
    torch.manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, MambaLayer):
                d, n = module.A_log.shape
                module.A_log.copy_(torch.log(torch.arange(1.0, n + 1)).expand(d, n))
                module.D.fill_(1)
                bound = module.rank**-0.5
                module.dt_proj.weight.uniform_(-bound, bound)
                low, high = math.log(config.dt_min), math.log(config.dt_max)
                step = torch.exp(torch.rand(d) * (high - low) + low).clamp(min=1e-4)
                module.dt_proj.bias.copy_(step + torch.log(-torch.expm1(-step)))  # the inverse of softplus
    return model
