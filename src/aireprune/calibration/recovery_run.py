"""A recovery under way: student, optimiser, position, and the best state so far.

All parameters learn by AdamW, with a warm-up and a cosine, in evaluation mode, so that the statistics of batch norms
stay. Short trials choose the learning rate: the highest one after which the model is at most 1.5 times as far away as after
the next lower one. Time is looked at once, in the beginning, to find out how many steps there will be. From then on
everything is decided by the number of a step, so a recovery that is interrupted and resumed ends in the same weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.calibration.comparison import Distance
from aireprune.calibration.distillation import Teacher
from aireprune.calibration.learnt import Learnt
from aireprune.calibration.lessons import Lessons
from aireprune.errors import AireError
from aireprune.families import FAMILIES, Layer
from aireprune.models.arrays import ModuleArrays

RATES = (1e-3, 3e-4, 1e-4)  # that are tried, from the highest down
TRIAL = 1 / 20  # share of all steps
TRIALS = 2  # that are expected to be in vain
FEW, MANY = 20, 200  # steps of a trial
BETTER = 1.5  # times closer: then a lower rate is better; less than that is what short trials always say of lower ones
WARM_UP = 0.1  # share of the steps of a schedule
LONGEST = 1.0  # length of a gradient
LOOKS = 20  # how often the model is judged
LOOKING = 0.2  # share of the time that judging may take
TIMED = 3  # steps that are timed, after one that is not
SAVED_AFTER = 20.0  # seconds

State = dict[str, Any]
NUMBERS = ("step", "steps", "first", "best", "look_every", "rate")


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long to learn: so many minutes or, whatever time they take, so many steps. seed: of the order of the inputs."""

    minutes: float | None = None
    steps: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Not a number is not more than nothing either."""
        given = [amount for amount in (self.minutes, self.steps) if amount is not None]
        if len(given) != 1 or not given[0] > 0:
            raise AireError("Recovery takes some minutes, more than 0, or at least one step.")


@dataclass(frozen=True)
class Progress:
    """After a step. closest: how far the best state so far is from the full model, on inputs that were kept aside."""

    step: int
    steps: int
    closest: Distance


class Keeper:
    """Keeps a recovery that is under way; this one does not."""

    def load(self) -> State | None:
        """What was kept of the same recovery."""
        return None

    def save(self, state: State) -> None:
        """Keep this in place of what was kept before."""


Report = Callable[[Progress], None]


class Run:
    """A student that learns, in place. layers: its state space layers."""

    def __init__(self, teacher: Teacher, lessons: Lessons, student: nn.Module, layers: Sequence[Layer[Any]]):
        self.teacher, self.lessons, self.student, self.layers = teacher, lessons, student, layers
        self.learnt = Learnt(student, layers)
        self.optimizer = self.learnt.optimizer()
        self.unstable = self._unstable()
        self.step = self.steps = self.best = self.first = (
            0  # first: step at which the schedule begins, after the trials
        )
        self.look_every = 1
        self.rate = RATES[0]

    def start(self, effort: Effort, before: Distance, keeper: Keeper) -> None:
        """From the beginning, or from where an earlier run was. before: how far the student is from the full model."""
        kept = keeper.load()
        if kept is not None:
            self._restore(kept)
            return
        self.before = self.closest = before
        self.best_state = _copied(self.student.state_dict())
        looks = LOOKS
        if effort.steps is not None:
            self.steps = effort.steps
        else:
            assert effort.minutes is not None
            self.steps, looks = self._affordable(60 * effort.minutes)
        self.look_every = -(-self.steps // looks)
        self._choose_rate()
        keeper.save(self._state())

    def go(self, keeper: Keeper, report: Report) -> int | None:
        """To the end; returns the step at which the loss was not finite, if there was one."""
        saved = time.monotonic()
        while self.step < self.steps:
            if not self._learn(rate(self.step - self.first, self.steps - self.first)):
                return self.step
            self.step += 1
            if self.step % self.look_every == 0 or self.step == self.steps:
                self._look()
            report(Progress(self.step, self.steps, self.closest))
            if time.monotonic() - saved > SAVED_AFTER:
                keeper.save(self._state())
                saved = time.monotonic()
        return None

    def _choose_rate(self) -> None:
        """Try rates for some steps each, and go on from where the best one led."""
        start, steps = self.best_state, min(self.steps, MANY, max(FEW, round(TRIAL * self.steps)))
        found: tuple[float, float, dict[str, Tensor]] | None = None
        for self.rate in RATES:
            self._begin_at(start)
            finite = all(self._learn(rate(self.step, steps)) for self.step in range(steps))
            harm = self.teacher.judge(self.student).harm if finite else math.inf
            if found is not None and not harm * BETTER < found[0]:
                break
            found = harm, self.rate, _copied(self.student.state_dict())
        assert found is not None
        _, self.rate, state = found
        self._begin_at(state)
        self.step = self.first = steps
        self._look()

    def _begin_at(self, state: dict[str, Tensor]) -> None:
        self.student.load_state_dict(state)
        self.optimizer = self.learnt.optimizer()

    def _learn(self, share: float) -> bool:
        """One step, at a share of the highest rate; False if the loss is not finite, and then nothing has changed."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * share * group["pace"]
        loss = self.teacher.loss(self.student, self.lessons[self.step])
        self.optimizer.zero_grad(set_to_none=True)
        if not torch.isfinite(loss):
            return False
        loss.backward()
        nn.utils.clip_grad_norm_(self.learnt.parameters, LONGEST)
        self.optimizer.step()
        self.learnt.hold()
        return True

    def _look(self) -> None:
        """Keep the present state if it is the closest one so far, and no layer has lost its stability."""
        found = self.teacher.judge(self.student)
        better = found.divergence < self.closest.divergence and is_no_worse(found, self.before)
        if better and self._unstable() <= self.unstable:
            self.closest, self.best = found, self.step
            self.best_state = _copied(self.student.state_dict())

    def _unstable(self) -> int:
        arrays = ModuleArrays(self.student)
        return sum(int(FAMILIES[layer.family].states(layer, arrays).unstable.sum()) for layer in self.layers)

    def _affordable(self, seconds: float) -> tuple[int, int]:
        """How many steps and looks fit into a time. The steps that are timed are undone."""
        began = time.perf_counter()
        times = [_timed(lambda: self._learn(1.0)) for _ in range(TIMED + 1)][1:]
        self._begin_at(self.best_state)
        look = _timed(lambda: self.teacher.judge(self.student))
        left = max(0.0, seconds - (time.perf_counter() - began))
        looks = max(1, min(LOOKS, int(LOOKING * left / look)))
        return max(1, int((left - looks * look) / median(times) / (1 + TRIALS * TRIAL))), looks

    def _state(self) -> State:
        return {
            "student": self.student.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best_state": self.best_state,
            "before": vars(self.before),
            "closest": vars(self.closest),
            **{name: getattr(self, name) for name in NUMBERS},
        }

    def _restore(self, state: State) -> None:
        self.student.load_state_dict(state["student"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.best_state = state["best_state"]
        self.before, self.closest = Distance(**state["before"]), Distance(**state["closest"])
        for name in NUMBERS:
            setattr(self, name, state[name])


def is_no_worse(found: Distance, than: Distance) -> bool:
    """In divergence, where there is one, and in distance."""
    return found.output <= than.output and (found.kl or 0.0) <= (than.kl or 0.0)


def rate(step: int, steps: int) -> float:
    """Share of the highest learning rate: linear warm-up, then a cosine to zero."""
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def _copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
