"""The largest ratio whose metric stays within a bound: bisection on a grid, few evaluations, the test split once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from aireprune.errors import AireError
from aireprune.tasks import Task
from aireprune.tasks.evaluate import evaluate

STEP = 0.01
HIGHEST = 0.99
EXAMPLES = 2000


@dataclass(frozen=True)
class Found:
    """The answer, and every ratio that was tried with its metric."""

    ratio: float
    full: float
    tried: dict[float, float] = field(default_factory=dict)

    @property
    def metric(self) -> float:
        return self.tried.get(self.ratio, self.full)


def largest_ratio(
    metric: Callable[[float], float],
    full: float,
    drop: float,
    step: float = STEP,
    highest: float = HIGHEST,
    harm: Callable[[float, float], float] = lambda full, value: full - value,
) -> Found:
    """The largest multiple of `step` with harm(full, metric(ratio)) <= drop, for a harm that grows with the ratio.

    Ratio 0 is the full model and is not evaluated. Where the metric wavers, the answer is a ratio that stayed within the
    bound beside one that did not.
    """
    if drop < 0:
        raise AireError(f"The drop that is allowed is 0 or more; got {drop}.")
    tried: dict[float, float] = {}
    good, bad = 0, round(highest / step) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        ratio = round(middle * step, 10)
        tried[ratio] = metric(ratio)
        if harm(full, tried[ratio]) <= drop + 1e-12:
            good = middle
        else:
            bad = middle
    return Found(round(good * step, 10), full, tried)


def search_ratio(
    model: nn.Module,
    task: Task,
    max_drop: float,
    examples: int = EXAMPLES,
    report: Callable[[float, float], None] = lambda ratio, metric: None,
    **options: Any,
) -> Found:
    """The largest ratio that costs at most `max_drop` points of accuracy (per cent of bits per byte) on validation data.

    options: those of `aireprune.prune`, calibration included; what it measures is measured once. At most `examples`
    validation examples are used.
    """
    from aireprune.api import prune
    from aireprune.calibration.inputs import COUNT, read_inputs
    from aireprune.calibration.pipeline import measure, prune_calibrated

    if not len(task.validation):
        raise AireError(f"Task {task.name} has no validation examples to choose a ratio with.")
    split = task.validation.rows(slice(0, examples))
    source, count = options.pop("calibrate", None), options.pop("calibrate_count", COUNT)
    inputs = None if source is None else read_inputs(source, count)
    method, reduce = options.get("method", "aire"), options.get("reduce", "truncate")
    known = None if inputs is None else measure(model, inputs, method, reduce)

    def metric(ratio: float) -> float:
        if inputs is None:
            small = prune(model, ratio=ratio, **options)
        else:
            small = prune_calibrated(model, inputs, known=known, ratio=ratio, **options)
        value = evaluate(small, task, split)
        report(ratio, value)
        return value

    return largest_ratio(metric, evaluate(model, task, split), max_drop / 100, harm=task.drop)
