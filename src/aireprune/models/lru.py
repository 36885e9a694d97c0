"""LRU (Orvieto et al. 2023) in PyTorch, parameter-compatible with minimal-LRU's JAX/Flax implementation.

Shapes: h features, N states, d directions (1 or 2), all states stored:

    nu_log, theta_log, gamma_log (N,)   B_re, B_im (N, h)   C_re, C_im (h, d N)   D (h,)

    lam = exp(-exp(nu_log) + i exp(theta_log)) ,   x_t = lam x_{t-1} + exp(gamma_log) B u_t ,   y_t = Re(C x_t) + D u_t

Block and model are those of `aireprune.models.diagonal`; minimal-LRU calls a block's norm `normalization`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from aireprune.models.diagonal import DiagonalBlock, DiagonalLayer, DiagonalModel, Kinds, initialize_dense
from aireprune.models.lru_config import LRUConfig


class LRULayer(DiagonalLayer):
    """u (b, L, h) -> y (b, L, h), the state space layer alone."""

    stock: ClassVar[Kinds] = {}
    readout_scale = 1.0

    def __init__(self, config: LRUConfig, modes: int):
        super().__init__()
        self.bidirectional, self.modes = config.bidirectional, modes
        h, d = config.h, 2 if config.bidirectional else 1
        self.nu_log = nn.Parameter(torch.empty(modes))
        self.theta_log = nn.Parameter(torch.empty(modes))
        self.gamma_log = nn.Parameter(torch.empty(modes))
        self.B_re = nn.Parameter(torch.empty(modes, h))
        self.B_im = nn.Parameter(torch.empty(modes, h))
        self.C_re = nn.Parameter(torch.empty(h, d * modes))
        self.C_im = nn.Parameter(torch.empty(h, d * modes))
        self.D = nn.Parameter(torch.empty(h))

    def readouts(self) -> list[Tensor]:
        c = torch.stack([self.C_re, self.C_im], dim=-1)
        return list(c.split(self.modes, dim=1)) if self.modes else [c]

    def discrete(self) -> tuple[Tensor, Tensor]:
        lam = torch.exp(torch.complex(-torch.exp(self.nu_log), torch.exp(self.theta_log)))
        return lam, torch.exp(self.gamma_log)[:, None] * torch.complex(self.B_re, self.B_im)

    def operator_arguments(self) -> dict[str, Any]:
        return {
            "poles": (-torch.exp(self.nu_log), torch.exp(self.theta_log), self.gamma_log),
            "step_rescale": 1.0,
            "clip_at": math.inf,
            "method": "discrete",
            "b": torch.stack([self.B_re, self.B_im], dim=-1),
            "c": self.readouts(),
            "c_scale": self.readout_scale,
            "d": self.D,
        }


class LRUBlock(DiagonalBlock):
    """Norm, LRU layer, activation and gate, residual: z (b, L, h) -> (b, L, h)."""

    stock: ClassVar[Kinds] = {"seq": (LRULayer,), **DiagonalBlock.parts}
    seq: LRULayer

    def __init__(self, config: LRUConfig, modes: int):
        super().__init__(config, LRULayer(config, modes))


class LRUModel(DiagonalModel):
    """Encoder, LRU blocks, pooling, head. model(x, lengths=None) -> logits."""

    family = "lru"
    stock: ClassVar[Kinds] = {"encoder": (nn.Linear,), "layers": (LRUBlock,)}
    config: LRUConfig

    def __init__(self, config: LRUConfig):
        super().__init__(config, partial(LRUBlock, config))


def initialize(model: LRUModel, seed: int = 0) -> LRUModel:
    """The initialisation of the LRU paper: poles uniform on the ring r_min <= |lam| <= r_max with angles below max_phase.

    gamma = sqrt(1 - |lam|^2), which keeps the variance of the states at that of the inputs; B, C and D are normal.
    """
    config = model.config
    torch.manual_seed(seed)
    with torch.no_grad():
        initialize_dense(model)
        for module in model.modules():
            if isinstance(module, LRULayer):
                squares = (config.r_max**2 - config.r_min**2) * (1 - torch.rand(module.modes)) + config.r_min**2
                module.nu_log.copy_(torch.log(-0.5 * torch.log(squares.clamp(max=1 - 1e-6))))
                module.theta_log.copy_(torch.log(config.max_phase * (1 - torch.rand(module.modes))))
                module.gamma_log.copy_(0.5 * torch.log(-torch.expm1(-2 * torch.exp(module.nu_log))))
                for part in (module.B_re, module.B_im):
                    part.normal_(std=1 / math.sqrt(2 * config.h))
                for part in (module.C_re, module.C_im):
                    part.normal_(std=1 / math.sqrt(max(module.modes, 1)))
                module.D.normal_()
    return model
