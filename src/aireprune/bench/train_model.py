"""A training step (forward and backward) of a whole S5 classifier, with and without the fused block, and in JAX.

All have the same weights, inputs and shares of dropout, and take turns. Their losses without dropout are compared first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.bench.s5_jax import JAX, jax_step
from aireprune.experiments.timing import medians, speedup, take_turns
from aireprune.memory import freed_memory_kept
from aireprune.models.dropout import TimeDropout
from aireprune.models.s5 import S5Model, initialize
from aireprune.models.s5_config import S5Config

OURS, PLAIN = "ours", "ours, block not fused"


def bench_train_model(config: S5Config, batch: int, length: int, repeats: int) -> dict[str, Any]:
    """Median seconds of a step per implementation, and ratios to ours as (median, lower quartile, upper quartile).

    difference: the largest between any other loss and ours, without dropout.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, length, config.d_input, generator=generator)
    y = torch.randint(0, config.d_output, (batch,), generator=generator)
    torch.manual_seed(0)
    model = initialize(S5Model(config)).train()
    calm = {name: step() for name, step in _steps(_without_dropout(model), x, y).items()}
    with freed_memory_kept():  # as in training
        times = take_turns(_steps(model, x, y), repeats)
    return {
        "batch": batch,
        "length": length,
        "h": config.h,
        "n": config.n,
        "layers": config.layers,
        "difference": max(abs(loss - calm[OURS]) for loss in calm.values()),
        "seconds": medians(times),
        "ratio": {name: speedup(values, times[OURS]) for name, values in times.items()},
    }


def _steps(model: S5Model, x: Tensor, y: Tensor) -> dict[str, Callable[[], float]]:
    """Every implementation's step, which returns the loss."""
    plain = copy.deepcopy(model)
    for dropout in _dropouts(plain):
        dropout.register_forward_hook(lambda *seen: None)  # a hook sees the parts of a block, so none is fused
    steps = {OURS: lambda: _step(model, x, y), PLAIN: lambda: _step(plain, x, y)}
    theirs = jax_step(model, x.numpy(), y.numpy())
    return steps if theirs is None else {**steps, JAX: theirs}


def _step(model: S5Model, x: Tensor, y: Tensor) -> float:
    model.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return float(loss.detach())


def _without_dropout(model: S5Model) -> S5Model:
    same = copy.deepcopy(model)
    same.config = replace(model.config, dropout=0.0)
    for dropout in _dropouts(same):
        dropout.p = 0.0
    return same


def _dropouts(model: S5Model) -> list[TimeDropout]:
    return [module for module in model.modules() if isinstance(module, TimeDropout)]
