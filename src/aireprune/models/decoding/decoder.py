"""Who computes the logits of the next token: a whole text first, then token by token.

Transformers' models run here as they are, with the fast scans; ours by their recurrent mode. One sequence of a stock
Mamba or Mamba-2 in single precision has a decoder of its own (`aireprune.models.decoding.fused`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.models.accelerate import fast_scans
from aireprune.models.evaluation import evaluation_mode
from aireprune.models.recurrent import Stepper


class Decoder(ABC):
    """logit_error: of weights in 8 bits, measured in `prefill`; None where nothing was rounded."""

    logit_error: float | None = None

    @abstractmethod
    def prefill(self, tokens: Tensor) -> Tensor:
        """Begin anew with tokens (b, L): the logits (b, tokens) of what follows."""

    @abstractmethod
    def step(self, tokens: Tensor) -> Tensor:
        """Go on by one token each, (b,): the logits (b, tokens) of what follows, which the next step may overwrite."""


class ModuleDecoder(Decoder):
    """A model of transformers whose forward pass takes and gives `cache_params`."""

    def __init__(self, model: nn.Module):
        self._model: Any = model
        self._cache: Any = None

    def prefill(self, tokens: Tensor) -> Tensor:
        self._cache = None
        return self._forward(tokens)

    def step(self, tokens: Tensor) -> Tensor:
        return self._forward(tokens[:, None])

    @torch.no_grad()
    def _forward(self, tokens: Tensor) -> Tensor:
        with evaluation_mode(self._model), fast_scans(self._model):
            out = self._model(tokens, cache_params=self._cache, use_cache=True, logits_to_keep=1)
        self._cache = out.cache_params
        logits: Tensor = out.logits[:, -1]
        return logits


class OwnDecoder(Decoder):
    """One of our models, by its recurrent mode."""

    def __init__(self, model: Any):
        self._model = model
        self._stepper: Stepper | None = None

    def prefill(self, tokens: Tensor) -> Tensor:
        self._stepper = self._model.stepper(len(tokens))
        return self._stepper.chunk(tokens)[:, -1]

    def step(self, tokens: Tensor) -> Tensor:
        assert self._stepper is not None
        return self._stepper.step(tokens)
