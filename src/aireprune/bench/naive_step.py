"""One step of a model as one writes it in plain torch: an operation after another, poles discretised once.

For S5, LRU and S4D that is what their recurrent mode does where no kernel serves; Mamba and Mamba-2 use kernels even
there, so their step is written out here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from aireprune.kernels.conv import causal_conv_reference
from aireprune.kernels.selective import selective_scan_reference
from aireprune.kernels.ssd import ssd_reference
from aireprune.models.mamba import MambaLayer
from aireprune.models.mamba2 import Mamba2Layer
from aireprune.models.projection import gates
from aireprune.models.recurrence.engine import Engine, TorchEngine, make_engine
from aireprune.models.recurrence.mamba import MambaFamily
from aireprune.models.recurrence.mamba2 import Mamba2Family
from aireprune.models.recurrence.selective import INPUTS, STATE

Held = tuple[Tensor, Tensor]  # last inputs (b, k - 1, channels), state (b, ..)


class NaiveMamba(MambaFamily):
    def features(self, model: Any, kept: list[Any], x: Tensor, memory: Mapping[str, Tensor]) -> Tensor:
        return _features(model, _mamba, x, memory)


class NaiveMamba2(Mamba2Family):
    def features(self, model: Any, kept: list[Any], x: Tensor, memory: Mapping[str, Tensor]) -> Tensor:
        return _features(model, _mamba2, x, memory)


NAIVE = {"mamba": NaiveMamba(), "mamba2": NaiveMamba2()}


def naive_engine(model: Any) -> Engine:
    engine = make_engine(model, by_modules=True)
    assert isinstance(engine, TorchEngine)
    engine.family = NAIVE.get(model.family, engine.family)
    return engine


def _features(model: Any, run: Any, x: Tensor, memory: Mapping[str, Tensor]) -> Tensor:
    z: Tensor = model.encode(x)
    for number, (layer, norm) in enumerate(zip(model.layers, model.norms, strict=True)):
        inputs, state = memory[INPUTS.format(number)], memory[STATE.format(number)]
        out, held = run(layer, norm(z), (inputs, state))
        z = z + out if model.config.residual else out
        for old, new in zip((inputs, state), held, strict=True):
            old.copy_(new)
    return z


def _convolved(conv: Any, u: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Convolution and SiLU, and the last inputs."""
    return causal_conv_reference(u, conv.weight, conv.bias, before), torch.cat([before, u], 1)[:, u.shape[1] :]


def _mamba(layer: MambaLayer, u: Tensor, held: Held) -> tuple[Tensor, Held]:
    x, z = layer.in_proj(u).chunk(2, dim=-1)
    x, inputs = _convolved(layer.conv1d, x, held[0])
    dt, b, c = layer.x_proj(x).split([layer.rank, layer.states, layer.states], dim=-1)
    dt, bias = dt @ layer.dt_proj.weight.T, layer.dt_proj.bias
    y, state = selective_scan_reference(x, dt, -torch.exp(layer.A_log), b, c, layer.D, bias, z, held[1])
    return layer.out_proj(y), (inputs, state)


def _mamba2(layer: Mamba2Layer, u: Tensor, held: Held) -> tuple[Tensor, Held]:
    d = layer.out_proj.in_features
    width = (layer.conv1d.out_channels - d) // 2
    z, xbc, dt = layer.in_proj(u).split([d, d + 2 * width, layer.heads], dim=-1)
    xbc, inputs = _convolved(layer.conv1d, xbc, held[0])
    x, b, c = xbc.split([d, width, width], dim=-1)
    groups = (layer.groups, width // layer.groups)
    b, c = gates(b.unflatten(-1, groups), layer.B_proj), gates(c.unflatten(-1, groups), layer.C_proj)
    x, poles = x.unflatten(-1, (layer.heads, -1)), -torch.exp(layer.A_log)
    y, state = ssd_reference(x, dt, poles, b, c, layer.D, layer.dt_bias, 0.0, math.inf, held[1])
    return layer.out_proj(layer.norm(y.flatten(-2), z)), (inputs, state)
