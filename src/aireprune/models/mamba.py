"""Mamba-1 in PyTorch: a classifier or a small language model, on the fused selective scan.

Shapes: b batch, L time, D = d_inner channels, N states, R = dt_rank. A layer has the parameter names of mamba_ssm:

    in_proj.weight (2D, d_model)   conv1d.weight (D, 1, k)   x_proj.weight (R + 2N, D)
    dt_proj.weight (D, R), dt_proj.bias (D,)   A_log (D, N)   D (D,)   out_proj.weight (d_model, D)

The model around the layers is that of `aireprune.models.selective`. A layer may have no states at all.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.kernels.conv import causal_conv
from aireprune.kernels.inputs import learns_here
from aireprune.kernels.mamba_training import mamba_training
from aireprune.kernels.selective import selective_scan, selective_step
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.recurrence.mamba import MambaFamily
from aireprune.models.selective import LayerCache, SelectiveLayer, SelectiveModel, draw_dt_bias


class MambaLayer(SelectiveLayer):
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

    def scan_output(self, u: Tensor, cache: LayerCache | None = None) -> Tensor:
        parts = self.in_proj(u)
        if cache is None and self._learns_whole(parts):
            return self._learn(parts)
        x, z = parts.chunk(2, dim=-1)
        before = None if cache is None else cache.remember(x)
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

    def _learns_whole(self, parts: Tensor) -> bool:
        """Whether the parts of the projection go through one function with a backward pass of its own."""
        watched = any(
            part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
            for part in (self.x_proj, self.dt_proj)
        )
        stock = type(self.x_proj) is nn.Linear and "forward" not in vars(self.x_proj) and self.x_proj.bias is None
        weights = (
            self.conv1d.weight,
            self.conv1d.bias,
            self.A_log,
            self.D,
            self.x_proj.weight,
            *self.dt_proj.parameters(),
        )
        single = parts.dtype == torch.float32  # the kernel is compiled for nothing else
        return stock and single and not watched and learns_here(parts, *weights)

    def _learn(self, parts: Tensor) -> Tensor:
        conv, dt = self.conv1d, self.dt_proj
        bias = conv.weight.new_zeros(len(conv.weight)) if conv.bias is None else conv.bias
        A = -torch.exp(self.A_log)
        return mamba_training(parts, (conv.weight, bias), self.x_proj.weight, (dt.weight, dt.bias), A, self.D)

    def new_cache(self, batch: int) -> LayerCache:
        d, n = self.A_log.shape
        zeros = self.A_log.new_zeros
        return LayerCache(zeros(batch, self.conv1d.kernel_size[0] - 1, d), zeros(batch, d, n))


class MambaModel(SelectiveModel):
    """model(x, lengths=None) -> logits: (b, classes), or (b, L, tokens) in mode 'tokens'."""

    family = "mamba"
    recurrence = MambaFamily()
    config: MambaConfig

    def __init__(self, config: MambaConfig):
        super().__init__(config, partial(MambaLayer, config))


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
                module.dt_proj.bias.copy_(draw_dt_bias(d, config.dt_min, config.dt_max))
    return model
