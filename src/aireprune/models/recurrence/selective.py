"""Mamba and Mamba-2 step by step: what both have in common.

A stream remembers the last inputs of every convolution (k - 1, channels) and every layer's state, as caches do.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from aireprune.kernels.step import Needs, Weights, make_program
from aireprune.models.recurrence.family import Compiled, Family, Memory, Shape, frame, norm_of, numbers

INPUTS, STATE = "layers.{}.inputs", "layers.{}.state"


class SelectiveFamily(Family):
    record: np.dtype

    def width(self, model: Any) -> int:
        return int(model.config.d_model)

    def shapes(self, model: Any) -> dict[str, Shape]:
        found: dict[str, Shape] = {}
        for number, cache in enumerate(model.new_caches(1)):
            found[INPUTS.format(number)] = tuple(cache.inputs.shape[1:])
            found[STATE.format(number)] = tuple(cache.state.shape[1:])
        return found

    def prepare(self, model: Any) -> list[Any]:
        return []

    def features(self, model: Any, kept: list[Any], x: Tensor, memory: Mapping[str, Tensor]) -> Tensor:
        caches = model.new_caches(len(x))
        for number, cache in enumerate(caches):
            cache.inputs = memory[INPUTS.format(number)].to(cache.inputs.dtype)
            cache.state = memory[STATE.format(number)].clone()
        z: Tensor = model.features(x, caches)
        for number, cache in enumerate(caches):
            memory[INPUTS.format(number)].copy_(cache.inputs)
            memory[STATE.format(number)].copy_(cache.state)
        return z

    def head(self, model: Any) -> tuple[nn.Module, nn.Module | None]:
        return model.classifier, model.norm

    def compiled(self, model: Any, dtype: np.dtype) -> Compiled:
        weights, memory, rows = Weights(dtype), Memory(), []
        fields, layers = frame(self, model, model.input_proj, weights), []
        for number, (layer, norm) in enumerate(zip(model.layers, model.norms, strict=True)):
            about = {"before": 1, **weights.norm(norm_of(norm)), "residual": int(model.config.residual)}
            layers.append({**about, **self.layer(layer, weights, memory, number)})
            rows.append(fields["width"] + self.scratch(layers[-1]))
        needs = Needs(memory=memory.size, rows=rows)
        return Compiled(program=make_program(fields, self.record, layers, weights, needs), places=memory.places)

    @abstractmethod
    def layer(self, layer: Any, weights: Weights, memory: Memory, number: int) -> dict[str, int]:
        """The fields of a layer's record."""

    @abstractmethod
    def scratch(self, layer: Mapping[str, int]) -> int:
        """Numbers of scratch per row, besides the layer's input."""


def convolution(conv: Any, sizes: tuple[int, ...], weights: Weights, memory: Memory, number: int) -> dict[str, int]:
    """Taps, bias and last inputs of a depthwise convolution over channels in sections of these sizes."""
    taps, channels = conv.kernel_size[0], conv.out_channels
    bias = np.zeros(channels) if conv.bias is None else numbers(conv.bias)
    width = weights.width(*sizes)
    where = width * np.arange(taps - 1)[:, None] + weights.places(*sizes)
    return {
        "taps": taps,
        "conv_at": weights.add(weights.vector(numbers(conv.weight)[:, 0].T, *sizes), weights.vector(bias, *sizes)),
        "window_at": memory.take(INPUTS.format(number), where, (taps - 1) * width),
    }
