"""How much faster a pruned model is: full and pruned side by side, and how much of the time its states take at all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.experiments.timing import medians, speedup, take_turns
from aireprune.method.selection import Budget
from aireprune.models.accelerate import accelerate, can_accelerate
from aireprune.models.evaluation import evaluation_mode
from aireprune.pruning.plan import Plan
from aireprune.pruning.prune import prune_module
from aireprune.pruning.request import Job, Request
from aireprune.pruning.source import FileSource, open_module

BATCH, LENGTH, REPEATS = 4, 512, 7


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Forward passes of `batch` random sequences of `length` steps, models taking turns; times are medians, in milliseconds.

    speedup: full over pruned, the median over turns with its quartiles. limit: the same for a model with one state per
    layer, which is all that removing states can gain.
    """

    batch: int
    length: int
    full: float
    pruned: float
    speedup: tuple[float, float, float]
    limit: float

    @property
    def share(self) -> float:
        """The share of the full model's time that its states take."""
        return max(0.0, 1 - 1 / self.limit)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "share": self.share}


def bench_pruned(source: FileSource, plan: Plan, mask: bool = False) -> Speed:
    """The model of a checkpoint beside itself under a plan. Readouts that were calibrated do not change the time."""
    full = open_module(source.build(), None if source.builder is None else source.config, plan.units, source.origin)
    barest = Request(budget=Budget(1.0), method="aire", reduce="truncate", layout="adaptive")
    jobs = {"pruned": Job(plan=plan, mask=mask, force=True), "bare": Job(request=barest)}
    models = {"full": full.module, **{name: _model(prune_module(full, job).model) for name, job in jobs.items()}}
    for model in models.values():
        if can_accelerate(model):
            accelerate(model)
    x = random_inputs(full.module)
    with evaluation_mode(*models.values()), torch.inference_mode():
        times = take_turns({name: partial(model, x) for name, model in models.items()}, REPEATS)
    found = {name: 1e3 * seconds for name, seconds in medians(times).items()}
    return Speed(
        batch=BATCH,
        length=LENGTH,
        full=found["full"],
        pruned=found["pruned"],
        speedup=speedup(times["full"], times["pruned"]),
        limit=speedup(times["full"], times["bare"])[0],
    )


def random_inputs(model: nn.Module) -> Tensor:
    """Tokens (BATCH, LENGTH) for a model that knows so many, else noise (BATCH, LENGTH, d_input)."""
    config: Any = getattr(model, "config", None)
    generator = torch.Generator().manual_seed(0)
    tokens = getattr(config, "vocab_size", None)
    if isinstance(tokens, int):
        return torch.randint(tokens, (BATCH, LENGTH), generator=generator)
    width = getattr(config, "d_input", None)
    if not isinstance(width, int):
        raise AireError(
            f"A {type(model).__name__} says nothing about its inputs (config.vocab_size or config.d_input), so it cannot be "
            "timed."
        )
    return torch.randn(BATCH, LENGTH, width, generator=generator)


def _model(found: nn.Module | None) -> nn.Module:
    assert found is not None
    return found
