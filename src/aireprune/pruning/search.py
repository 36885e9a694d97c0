"""The largest ratio whose metric stays within a bound: bisection on a grid, few evaluations, the test split once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from aireprune.errors import AireError
from aireprune.pruning.calibrating import read_calibration
from aireprune.pruning.defaults import settle
from aireprune.pruning.measuring import measure
from aireprune.pruning.prune import check_job, prune_module
from aireprune.pruning.request import Job
from aireprune.pruning.source import ModuleSource
from aireprune.tasks import Task
from aireprune.tasks.evaluate import evaluate

STEP = 0.01
HIGHEST = 0.99
EXAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a pruned model may cost on a task: at most `max_drop` points of accuracy, or per cent more bits.

    At most `examples` of its validation examples are used.
    """

    task: Task
    max_drop: float
    examples: int = EXAMPLES

    def __post_init__(self) -> None:
        if not self.max_drop >= 0:
            raise AireError(f"What pruning may cost is 0 or more; got max_drop={self.max_drop:g}.")


@dataclass(frozen=True)
class RatioFound:
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
) -> RatioFound:
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
    return RatioFound(round(good * step, 10), full, tried)


def search_ratio(
    source: ModuleSource,
    job: Job,
    goal: Goal,
    report: Callable[[float, float], None] = lambda ratio, metric: None,
) -> RatioFound:
    """The largest ratio at which the job costs no more than the goal allows; what it measures is measured once.

    The job's own ratio is what is looked for, without recovery, which would take its time at every ratio. report(ratio,
    metric) is called after every ratio that was tried.
    """
    if job.request is None:
        raise AireError("max_drop= makes a plan of its own: give it without a plan.")
    if job.request.allocate == "measured":
        raise AireError(
            "max_drop= tries many ratios, and allocate='measured' would measure anew for each: give a ratio."
        )
    task = goal.task
    if not len(task.validation):
        raise AireError(f"Task {task.name} has no validation examples to choose a ratio with.")
    source, job = settle(source, replace(job, recovery=None), own=source.is_own)
    request, split = job.request, task.validation.rows(slice(0, goal.examples))
    assert request is not None
    check_job(source, job)
    measured = measure(source, job, read_calibration(source, job.calibration))

    def metric(ratio: float) -> float:
        asked = replace(request, budget=replace(request.budget, ratio=ratio, threshold=None))
        small = prune_module(source, replace(job, request=asked), measured).model
        assert small is not None
        value = evaluate(small, task, split)
        report(ratio, value)
        return value

    return largest_ratio(metric, evaluate(source.module, task, split), goal.max_drop / 100, harm=task.drop)
