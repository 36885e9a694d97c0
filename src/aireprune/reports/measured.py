"""The full and the pruned model on a task's test examples: the metric with its interval, and how fast they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


BATCH, ROUNDS = 8, 7


@dataclass(frozen=True, kw_only=True)
class Measured:
    """before, after: the metric as people read it (per cent of accuracy, or bits per byte), each with its 95 % interval.

    p: of no difference on the same examples. speedup: of a forward pass of BATCH sequences, the median and quartiles over
    rounds in which the models take turns; threads: that were used.
    """

    task: str
    metric: str
    examples: int
    before: tuple[float, float, float]
    after: tuple[float, float, float]
    p: float
    speedup: tuple[float, float, float]
    threads: int

    @property
    def accuracy(self) -> bool:
        return self.metric == "accuracy"

    @property
    def loss(self) -> float:
        """Points of accuracy, or per cent of bits per byte."""
        full, value = self.before[0], self.after[0]
        return full - value if self.accuracy else 100 * (value / full - 1)

    def text(self, value: float) -> str:
        return f"{value:.1f} %" if self.accuracy else f"{value:.3f}"


def measure(full: nn.Module, pruned: nn.Module, name: str, examples: int) -> Measured:
    """name: of a task. examples: the first so many of its test split; 0: all."""
    import torch

    from aireprune.experiments.statistics import interval, paired_p_value
    from aireprune.experiments.timing import speedup, take_turns
    from aireprune.models.evaluation import evaluation_mode
    from aireprune.tasks import load_task
    from aireprune.tasks.evaluate import forward, per_example

    task = load_task(name)
    split = task.test.rows(slice(0, examples or None))
    scale = 1.0 if task.language else 100.0
    answers = [per_example(model, task, split) for model in (full, pruned)]
    before, after = (tuple(scale * v for v in (float(found.mean()), *interval(found))) for found in answers)
    few = split.rows(slice(0, BATCH))
    with torch.inference_mode(), evaluation_mode(full, pruned):
        runs = {"full": partial(forward, full, task, few), "pruned": partial(forward, pruned, task, few)}
        times = take_turns(runs, ROUNDS)
    return Measured(
        task=task.name,
        metric=task.metric,
        examples=len(split),
        before=before,  # type: ignore[arg-type]
        after=after,  # type: ignore[arg-type]
        p=paired_p_value(*answers),
        speedup=speedup(times["full"], times["pruned"]),
        threads=torch.get_num_threads(),
    )
