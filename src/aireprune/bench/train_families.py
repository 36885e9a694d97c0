"""A training step (forward and backward) of a whole S4D, Mamba or Mamba-2 classifier, beside the same model done otherwise.

All have the same weights and inputs and take turns. Their losses are compared first.

    s4d      its layers as convolutions by FFT, the kernel made by us, or by an einsum as in the S4 repository
    mamba    its layers computed by mambapy (a parallel scan in plain torch), if that is installed
    mamba2   the parts of its layers one by one, and with the scan as matrix products over chunks of time in plain torch
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.bench.s4d import EINSUM, einsum_layer
from aireprune.experiments.timing import medians, speedup, take_turns
from aireprune.kernels.s4d import s4d_fft
from aireprune.kernels.ssd import ssd_chunked
from aireprune.memory import freed_memory_kept
from aireprune.models import mamba, mamba2, s4d
from aireprune.models.mamba2_config import Mamba2Config
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.s4d_config import S4DConfig

OURS, FFT, MAMBAPY = "ours", "ours, by FFT", "mambapy"
PARTS, CHUNKS = "ours, layer not fused", "matrix products over chunks, plain torch"
FAMILIES = ("s4d", "mamba", "mamba2")


@dataclass(frozen=True, kw_only=True)
class Size:
    """Of a classifier of `family` and of its inputs. h: features, or d_model. n: states, both halves of S4D's pairs.

    head_dim: channels of a head of Mamba-2.
    """

    family: str
    batch: int
    length: int
    h: int
    n: int
    layers: int
    head_dim: int = 16


def bench_train_family(size: Size, repeats: int) -> dict[str, Any]:
    """Median seconds of a step per implementation, and ratios to ours as (median, lower quartile, upper quartile).

    difference: the largest between any other loss and ours.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size.batch, size.length, 1, generator=generator)
    y = torch.randint(0, 10, (size.batch,), generator=generator)
    model = _model(size).train()
    models = {OURS: model, **{name: change(copy.deepcopy(model)) for name, change in _others(size).items()}}
    steps = {name: _step(each, x, y) for name, each in models.items()}
    with freed_memory_kept():  # as in training
        losses = {name: step() for name, step in steps.items()}
        times = take_turns(steps, repeats)
    return {
        "family": size.family,
        "batch": size.batch,
        "length": size.length,
        "h": size.h,
        "n": size.n,
        "layers": size.layers,
        "difference": max(abs(loss - losses[OURS]) for loss in losses.values()),
        "seconds": medians(times),
        "ratio": {name: speedup(values, times[OURS]) for name, values in times.items()},
    }


def _model(size: Size) -> nn.Module:
    if size.family == "s4d":
        return s4d.initialize(s4d.S4DModel(S4DConfig(1, 10, size.h, size.n, size.layers)))
    if size.family == "mamba":
        return mamba.initialize(mamba.MambaModel(MambaConfig(1, 10, size.h, size.layers, d_state=size.n)))
    config = Mamba2Config(1, 10, size.h, size.layers, d_state=size.n, head_dim=size.head_dim)
    return mamba2.initialize(mamba2.Mamba2Model(config))


def _others(size: Size) -> dict[str, Callable[[nn.Module], nn.Module]]:
    """What is done to a copy of the model for it to compute the same otherwise."""
    if size.family == "s4d":
        return {
            FFT: lambda model: _by(model, _fft_layer),
            EINSUM: lambda model: _by(model, einsum_layer),
        }
    if size.family == "mamba":
        return {MAMBAPY: _by_mambapy} if importlib.util.find_spec("mambapy") else {}
    return {PARTS: _watched, CHUNKS: lambda model: _by_chunks(_watched(model))}


def _fft_layer(layer: s4d.S4DLayer, u: Tensor) -> Tensor:
    lam, w = layer.kernel.discrete()
    return s4d_fft(lam, w, layer.D, u)


def _by(model: nn.Module, ssm: Callable[[s4d.S4DLayer, Tensor], Tensor]) -> nn.Module:
    for layer in model.modules():
        if isinstance(layer, s4d.S4DLayer):
            layer.ssm = partial(ssm, layer)  # type: ignore[method-assign]
    return model


def _by_mambapy(model: nn.Module) -> nn.Module:
    from mambapy.mamba import MambaBlock
    from mambapy.mamba import MambaConfig as TheirConfig

    assert isinstance(model, mamba.MambaModel)
    ours = model.config
    theirs = TheirConfig(d_model=ours.d_model, n_layers=ours.layers, d_state=ours.d_state, dt_rank=ours.rank)
    for number, layer in enumerate(model.layers):
        block = MambaBlock(theirs)
        block.load_state_dict(layer.state_dict())
        model.layers[number] = _Alone(block)
    return model


class _Alone(nn.Module):
    """A layer that has no cache."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, u: Tensor, cache: None = None) -> Tensor:
        out: Tensor = self.layer(u)
        return out


def _watched(model: nn.Module) -> nn.Module:
    """A hook sees the parts of a layer, so none is fused."""
    for part in model.modules():
        if isinstance(part, mamba2.GatedNorm):
            part.register_forward_hook(lambda *seen: None)
    return model


def _by_chunks(model: nn.Module) -> nn.Module:
    for layer in model.modules():
        if isinstance(layer, mamba2.Mamba2Layer):
            layer._scan = partial(_chunked, layer)  # type: ignore[method-assign]
    return model


def _chunked(layer: Any, x: Tensor, dt: Tensor, b: Tensor, c: Tensor, cache: None) -> Tensor:
    state = x.new_zeros(len(x), *x.shape[2:], b.shape[-1])
    given = (x, dt, -torch.exp(layer.A_log), b, c, layer.D, layer.dt_bias)
    return ssd_chunked(*given, 0.0, float("inf"), state)[0]


def _step(model: nn.Module, x: Tensor, y: Tensor) -> Callable[[], float]:
    def step() -> float:
        model.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return float(loss.detach())

    return step
