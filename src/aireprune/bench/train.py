"""A training step (forward and backward) of one bidirectional S5 layer, against other implementations of it.

All compute the same recurrence: ours (numba scan with a hand-written backward), an eager associative scan in plain
torch, and s5-pytorch's layer if it is installed. They take turns, so that other load on the machine affects all of them
alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aireprune.bench.s5_pytorch import OTHER, s5_pytorch_layer
from aireprune.experiments.timing import medians, speedup, take_turns
from aireprune.models.s5 import S5SSM, S5Model, initialize
from aireprune.models.s5_config import S5Config


def associative_scan(lam: Tensor, v: Tensor) -> Tensor:
    """x_t = lam x_{t-1} + v_t over axis 1 by doubling: log2(L) passes of elementwise torch."""
    length, shift, power = v.shape[1], 1, lam
    while shift < length:
        v = torch.cat([v[:, :shift], v[:, shift:] + power * v[:, :-shift]], dim=1)
        power = power * power
        shift *= 2
    return v


def eager_layer(layer: S5SSM, u: Tensor) -> Tensor:
    """The same layer with complex matrix products around the eager scan."""
    lam, b_bar = layer.discrete()
    v = u.to(lam.dtype) @ b_bar.T
    forward, backward = associative_scan(lam, v), associative_scan(lam, v.flip(1)).flip(1)
    c1, c2 = (torch.view_as_complex(c.contiguous()) for c in layer.readouts())
    return 2 * (forward @ c1.T + backward @ c2.T).real + u * layer.D


def bench_train(batch: int, length: int, h: int, n: int, repeats: int) -> dict[str, Any]:
    """Median seconds of a step per implementation, and ratios to ours as (median, lower quartile, upper quartile)."""
    config = S5Config(d_input=1, d_output=1, h=h, n=n, layers=1, bidirectional=True, C_init="lecun_normal")
    layer = initialize(S5Model(config)).layers[0].seq
    assert isinstance(layer, S5SSM)
    u = torch.randn(batch, length, h, generator=torch.Generator().manual_seed(0))
    runs: dict[str, Callable[[], Tensor]] = {
        "ours": lambda: layer(u),
        "eager associative scan": lambda: eager_layer(layer, u),
    }
    other = s5_pytorch_layer(h, n)
    if other is not None:
        runs[OTHER] = lambda: other(u)
    with torch.no_grad():
        difference = float((layer(u) - eager_layer(layer, u)).abs().max() / layer(u).abs().max())
    times = take_turns({name: _step(run) for name, run in runs.items()}, repeats)
    return {
        "batch": batch,
        "length": length,
        "h": h,
        "n": n,
        "difference": difference,
        "seconds": medians(times),
        "ratio": {name: speedup(values, times["ours"]) for name, values in times.items()},
    }


def _step(run: Callable[[], Tensor]) -> Callable[[], object]:
    return lambda: run().square().mean().backward()
