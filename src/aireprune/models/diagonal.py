"""What S5 and LRU have in common: a diagonal layer, the block around it, and the model of such blocks.

Shapes: b batch, L time, h features, P stored modes, d directions (1 or 2).

    x_t = lam x_{t-1} + B u_t ,   y_t = s Re(C x_t) + D u_t ,   s = 2 where one of each conjugate pair is stored, else 1

The state scan is a real operator over [Re | Im], with one matrix product on each side of it. A layer may have any number
of states, zero included.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.kernels.s5_dispatch import fused_block, fused_features, fused_layer, trained_block
from aireprune.kernels.scan import diagonal_scan
from aireprune.models.dropout import TimeDropout
from aireprune.models.encoder import encoded
from aireprune.models.heads import make_head, pooled
from aireprune.models.recurrence.diagonal import DiagonalFamily
from aireprune.models.recurrent import Recurrent

LAYER_NORM_EPS = 1e-6  # Flax's default, not torch's
Kinds = dict[str, tuple[type[nn.Module], ...]]  # of a module's parts by name, for `aireprune.kernels.s5_dispatch`


class DiagonalConfig(Protocol):
    """What blocks and models read from a configuration."""

    @property
    def d_input(self) -> int: ...
    @property
    def d_output(self) -> int: ...
    @property
    def h(self) -> int: ...
    @property
    def activation(self) -> str: ...
    @property
    def prenorm(self) -> bool: ...
    @property
    def batchnorm(self) -> bool: ...
    @property
    def modes(self) -> tuple[int, ...]: ...
    @property
    def mode(self) -> str: ...
    @property
    def retrieval(self) -> bool: ...
    @property
    def dropout(self) -> float: ...


class DiagonalLayer(nn.Module, ABC):
    """u (b, L, h) -> y (b, L, h), the state space layer alone."""

    stock: ClassVar[Kinds] = {}
    modes: int
    bidirectional: bool
    readout_scale: float  # s
    D: nn.Parameter  # (h,)

    @abstractmethod
    def discrete(self) -> tuple[Tensor, Tensor]:
        """Discrete poles (P,) and input matrix (P, h), complex."""

    @abstractmethod
    def readouts(self) -> list[Tensor]:
        """C of each direction, (h, P, 2) with (re, im) in the last axis."""

    @abstractmethod
    def operator_arguments(self) -> dict[str, Any]:
        """The layer as `aireprune.kernels.s5.s5_block` takes it: parameters that are not discretised yet, and how they
        are to be."""

    def forward(self, u: Tensor) -> Tensor:
        if self.modes == 0:
            return u * self.D
        if (y := fused_layer(self, u)) is not None:
            return y
        lam, b, c = self.in_real_numbers()
        x = diagonal_scan(lam, u @ b.to(u.dtype).T, self.bidirectional)  # (b, L, d, 2P)
        return x.flatten(2) @ c.to(u.dtype).T + u * self.D

    def in_real_numbers(self) -> tuple[Tensor, Tensor, Tensor]:
        """Poles (P,), still complex; [Re B; Im B] (2P, h); readouts (h, 2P d) of [Re x | Im x] of every direction."""
        lam, b = self.discrete()
        c = torch.cat([part for c in self.readouts() for part in (c[..., 0], -c[..., 1])], dim=1)
        return lam, torch.cat([b.real, b.imag]), self.readout_scale * c


class BatchNorm(nn.BatchNorm1d):
    """Batch norm over every axis but the last, as Flax applies it: (b, L, h)."""

    channels_last: ClassVar[bool] = True

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(-1, x.shape[-1])).view_as(x)


class DiagonalBlock(nn.Module):
    """Norm, state space layer, activation and gate, residual: z (b, L, h) -> (b, L, h)."""

    parts: ClassVar[Kinds] = {
        "norm": (BatchNorm, nn.LayerNorm),
        "out1": (nn.Linear,),
        "out2": (nn.Linear,),
        "drop": (TimeDropout,),
    }

    def __init__(self, config: DiagonalConfig, layer: DiagonalLayer):
        super().__init__()
        self.activation, self.prenorm = config.activation, config.prenorm
        self.seq = layer
        self.norm: BatchNorm | nn.LayerNorm = (
            BatchNorm(config.h) if config.batchnorm else nn.LayerNorm(config.h, eps=LAYER_NORM_EPS)
        )
        if config.activation == "full_glu":
            self.out1 = nn.Linear(config.h, config.h)
        if config.activation != "gelu":
            self.out2 = nn.Linear(config.h, config.h)
        self.drop = TimeDropout(config.dropout)

    def gate(self, y: Tensor) -> Tensor:
        g = self.drop(F.gelu(y, approximate="tanh"))
        if self.activation == "gelu":
            return g
        if self.activation == "full_glu":
            return self.drop(self.out1(g) * torch.sigmoid(self.out2(g)))
        return self.drop((y if self.activation == "half_glu2" else g) * torch.sigmoid(self.out2(g)))

    def forward(self, z: Tensor) -> Tensor:
        if (fused := fused_block(self, z)) is not None or (fused := trained_block(self, z)) is not None:
            return fused
        out = z + self.gate(self.seq(self.norm(z) if self.prenorm else z))
        return out if self.prenorm else self.norm(out)


class DiagonalModel(Recurrent, nn.Module):
    """Encoder, blocks, pooling, head. model(x, lengths=None) -> logits: (b, classes), or (b, L, tokens) in mode tokens.

    x is (b, L, d_input), or integer tokens (b, L) which stand for their one-hot vectors. With lengths (b,), pooling
    uses only the first lengths[i] steps of sequence i; the scans still run over the padding, as in the official code.
    A retrieval model takes 2n documents, the first of each pair in the first half, and returns n rows. make_block: from a
    number of modes.
    """

    recurrence = DiagonalFamily()

    def __init__(self, config: DiagonalConfig, make_block: Callable[[int], DiagonalBlock]):
        super().__init__()
        self.config = config
        self.encoder = nn.Linear(config.d_input, config.h)
        self.layers = nn.ModuleList(make_block(modes) for modes in config.modes)
        self.decoder = make_head(config.h, config.d_output, config.retrieval)

    def encode(self, x: Tensor) -> Tensor:
        return encoded(self.encoder, x)

    def pool(self, z: Tensor, lengths: Tensor | None, cleared: bool = False) -> Tensor:
        """The stack's output (b, L, h) as the head takes it: (b, h), or all of it in mode tokens."""
        return pooled(z, lengths, self.config.mode, cleared)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        features = fused_features(self, x, lengths)
        if features is None:
            z = self.encode(x)
            for layer in self.layers:
                z = layer(z)
            features = self.pool(z, lengths)
        return self.decoder(features)


def initialize_dense(model: nn.Module) -> None:
    """Flax's lecun_normal kernels and zero biases for every dense layer."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=1 / math.sqrt(module.in_features) / 0.87962566, a=-2, b=2)
            nn.init.zeros_(module.bias)
