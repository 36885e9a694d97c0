"""One step of a whole model: our kernels, dense and pruned, and the same in plain torch.

Weights are random. Everything that is compared takes turns within one run; a turn is several steps of the same streams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from aireprune.bench.naive_step import naive_engine
from aireprune.experiments.timing import medians, speedup, take_turns
from aireprune.models.create import AnyConfig, new_model
from aireprune.models.lru_config import LRUConfig
from aireprune.models.mamba2_config import Mamba2Config
from aireprune.models.mamba_config import MambaConfig
from aireprune.models.recurrence.state import State
from aireprune.models.s4d_config import S4DConfig
from aireprune.models.s5_config import S5Config

FAMILIES = ("s5", "s4d", "lru", "mamba", "mamba2")
DENSE, PRUNED, TORCH = "dense", "pruned", "plain torch"
STEPS = 20  # of a turn


@dataclass(frozen=True, kw_only=True)
class StepSize:
    """features: h or d_model. states: n, or d_state of Mamba and Mamba-2. kept: share of them in the pruned model."""

    features: int
    states: int
    layers: int
    batch: int
    kept: float


def make_config(family: str, size: StepSize) -> AnyConfig:
    """A classifier of ten classes that reads one number per step."""
    h, n, layers = size.features, size.states, size.layers
    match family:
        case "s5":
            return S5Config(1, 10, h, n, layers)
        case "s4d":
            return S4DConfig(1, 10, h, n, layers)
        case "lru":
            return LRUConfig(1, 10, h, n, layers)
        case "mamba":
            return MambaConfig(1, 10, h, layers, d_state=n)
        case _:
            return Mamba2Config(1, 10, h, layers, d_state=n, head_dim=min(64, 2 * h))


def pruned_size(size: StepSize) -> StepSize:
    """With fewer states, at least a pair of them."""
    return replace(size, states=max(2, 2 * round(size.kept * size.states / 2)))


def step_runs(family: str, size: StepSize) -> tuple[dict[str, Callable[[], Tensor]], dict[str, Any]]:
    """A turn of each of the three, and what there is to know about the models."""
    dense, pruned = (new_model(make_config(family, found), 0).eval() for found in (size, pruned_size(size)))
    batch = size.batch
    x = torch.randn(batch, STEPS, 1, generator=torch.Generator().manual_seed(0))
    steppers: dict[str, Any] = {DENSE: dense.stepper(batch), PRUNED: pruned.stepper(batch)}  # type: ignore[operator]
    engine = naive_engine(dense)
    state = State(engine.layout, batch)

    def ours(name: str) -> Callable[[], Tensor]:
        return lambda: [steppers[name].step(x[:, t]) for t in range(STEPS)][-1]

    def plain() -> Tensor:
        with torch.no_grad():
            return [engine.run(dense, x[:, t : t + 1], state, None) for t in range(STEPS)][-1]

    with torch.no_grad():
        exact, first, naive = dense(x), ours(DENSE)(), plain()
    known = {
        "difference": float(max((first - exact).abs().max(), (naive - exact).abs().max()) / exact.abs().max()),
        "state bytes": {name: stepper.state.layout.bytes_per_stream() for name, stepper in steppers.items()},
    }
    return {DENSE: ours(DENSE), PRUNED: ours(PRUNED), TORCH: plain}, known


def bench_step(families: tuple[str, ...], size: StepSize, repeats: int) -> dict[str, Any]:
    """Median seconds of a step, streams per second, bytes of a stream's state; ratios as (median, quartiles)."""
    found = {}
    for family in families:
        runs, known = step_runs(family, size)
        times = {name: seconds / STEPS for name, seconds in take_turns(runs, repeats).items()}
        seconds = medians(times)
        found[family] = {
            **known,
            "seconds": seconds,
            "streams per second": {name: size.batch / middle for name, middle in seconds.items()},
            "plain torch to dense": speedup(times[TORCH], times[DENSE]),
            "dense to pruned": speedup(times[DENSE], times[PRUNED]),
        }
    return {"size": vars(size) | {"steps of a turn": STEPS}, "families": found}
