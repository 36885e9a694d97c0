"""Recovery: a reduced model learns from the full one, on unlabelled inputs (docs/method.md section 5.10).

Now and then the model is judged on inputs that were kept aside, and the best state wins; the one that it began with is
among them, so what comes out is never further from the full model there than what went in.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from aireprune.calibration.comparison import Distance
from aireprune.calibration.distillation import Teacher
from aireprune.calibration.inputs import Inputs
from aireprune.calibration.lessons import Lessons
from aireprune.calibration.readout import check_pair
from aireprune.calibration.recovery_run import Effort, Keeper, Report, Run, is_no_worse
from aireprune.calibration.running import running
from aireprune.calibration.subject import Opened
from aireprune.memory import freed_memory_kept


@dataclass(frozen=True)
class Recovered:
    """What came of it. best: the step after which the model was closest to the full one; 0: it never got closer.

    before, after: distances on the inputs that were kept aside. broken_off: the step at which the loss was not finite.
    """

    model: nn.Module
    before: Distance
    after: Distance
    steps: int
    best: int
    broken_off: int | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """What a user should know."""
        if self.broken_off is not None:
            kept = f"what it was after step {self.best}" if self.best else "what it was before"
            return (
                f"recovery broke off at step {self.broken_off}, where the loss was not finite; the model is {kept}.",
            )
        return () if self.best else ("recovery did not help on held-out inputs; the model is what it was before.",)

    def to_dict(self) -> dict[str, Any]:
        distances = {
            when: {"output": found.output, "kl": found.kl, "agreement": found.agreement}
            for when, found in (("before", self.before), ("after", self.after))
        }
        return {"steps": self.steps, "best": self.best, "broken_off": self.broken_off, **distances}


def recover(
    full: Opened,
    reduced: Opened,
    inputs: Inputs,
    effort: Effort,
    keeper: Keeper = Keeper(),
    report: Report = lambda progress: None,
) -> Recovered:
    """A copy of the reduced model that is closer to the full one on held-out inputs, or itself if learning did not help.

    It learns in single precision and is handed out in the precision of the reduced model. keeper: keeps what is needed
    to go on after an interruption.
    """
    check_pair(full, reduced)
    lessons = Lessons(inputs, effort.seed)
    student = copy.deepcopy(reduced.module)
    _to_single_precision(student)
    with running(full.module, reduced.module, student), freed_memory_kept():
        teacher = Teacher(full.module, lessons.judges)
        before = teacher.judge(reduced.module)
        run = Run(teacher, lessons, student, reduced.layers)
        run.start(effort, before, keeper)
        broken_off = run.go(keeper, report)
        model: nn.Module = copy.deepcopy(reduced.module)
        model.load_state_dict(run.best_state)
        after = teacher.judge(model)
    if run.best == 0 or not is_no_worse(after, before):
        return Recovered(reduced.module, before, before, run.step, 0, broken_off)
    return Recovered(model, before, after, run.step, run.best, broken_off)


def _to_single_precision(model: nn.Module) -> None:
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.dtype in (torch.float16, torch.bfloat16):
            tensor.data = tensor.data.float()
