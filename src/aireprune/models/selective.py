"""What Mamba and Mamba-2 have in common: caches, and the model around the layers.

Around the layers: input_proj, norms.i (before layer i, where there are any), norm, classifier. Every layer may have its
own number of states. With a cache the same forward continues a sequence, one step or many at a time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from aireprune.kernels.rms_norm import normed
from aireprune.models.encoder import encoded
from aireprune.models.heads import make_head, pooled
from aireprune.models.recurrent import Recurrent
from aireprune.models.selective_config import SelectiveConfig

RMS_EPSILON = 1e-5


@dataclass
class LayerCache:
    """What a layer remembers: the last inputs of the convolution (b, k - 1, channels) and the state (b, ..., N)."""

    inputs: Tensor
    state: Tensor

    def remember(self, u: Tensor) -> Tensor:
        """The inputs before u (b, L, channels), which are then the last ones of u."""
        before, kept = self.inputs, self.inputs.shape[1]
        if kept:
            self.inputs = torch.cat([before, u[:, -kept:]], 1)[:, -kept:]
        return before


class SelectiveLayer(nn.Module, ABC):
    """u (b, L, d_model) -> (b, L, d_model)."""

    out_proj: nn.Linear

    def forward(self, u: Tensor, cache: LayerCache | None = None) -> Tensor:
        out: Tensor = self.out_proj(self.scan_output(u, cache))
        return out

    @abstractmethod
    def scan_output(self, u: Tensor, cache: LayerCache | None = None) -> Tensor:
        """What out_proj reads, (b, L, channels); a cache is read and brought up to date in place."""

    @abstractmethod
    def new_cache(self, batch: int) -> LayerCache:
        """The cache of sequences that have not begun."""


def make_norm(kind: str, width: int) -> nn.Module:
    if kind == "none":
        return nn.Identity()
    return nn.LayerNorm(width) if kind == "layer" else nn.RMSNorm(width, eps=RMS_EPSILON)


class SelectiveModel(Recurrent, nn.Module):
    """model(x, lengths=None) -> logits: (b, classes), or (b, L, tokens) in mode 'tokens'.

    x is (b, L, d_input), or integer tokens (b, L) which stand for their one-hot vectors. With lengths (b,), pooling
    uses only the first lengths[i] steps of sequence i. make_layer: from a number of states.
    """

    def __init__(self, config: SelectiveConfig, make_layer: Callable[[int], SelectiveLayer]):
        super().__init__()
        self.config = config
        self.input_proj = nn.Linear(config.d_input, config.d_model)
        self.layers = nn.ModuleList(make_layer(states) for states in config.state_sizes)
        self.norms = nn.ModuleList(make_norm(config.norm, config.d_model) for _ in self.layers)
        self.norm = make_norm(config.final_norm, config.d_model)
        self.drop = nn.Dropout(config.dropout)
        self.classifier = make_head(config.d_model, config.d_output, config.retrieval)

    def encode(self, x: Tensor) -> Tensor:
        return encoded(self.input_proj, x)

    def features(self, x: Tensor, caches: list[LayerCache] | None = None) -> Tensor:
        """The stack's output before pooling, (b, L, d_model)."""
        z = self.encode(x)
        for i, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            out = self.drop(layer(normed(norm, z), None if caches is None else caches[i]))
            z = z + out if self.config.residual else out
        return z

    def forward(self, x: Tensor, lengths: Tensor | None = None, caches: list[LayerCache] | None = None) -> Tensor:
        logits: Tensor = self.classifier(self.norm(pooled(self.features(x, caches), lengths, self.config.mode)))
        return logits

    def new_caches(self, batch: int) -> list[LayerCache]:
        """Empty caches, one per layer; hand them to every further call to continue the same sequences."""
        return [layer.new_cache(batch) for layer in self.layers]  # type: ignore[operator]


def draw_dt_bias(count: int, dt_min: float, dt_max: float) -> Tensor:
    """Biases (count,) whose softplus, the step of a layer at rest, is log-uniform in [dt_min, dt_max]."""
    low, high = math.log(dt_min), math.log(dt_max)
    step = torch.exp(torch.rand(count) * (high - low) + low).clamp(min=1e-4)
    return step + torch.log(-torch.expm1(-step))
