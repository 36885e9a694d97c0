"""How many states each layer keeps, measured: what it does to the model's answers when one layer has fewer (docs/method.md
section 3.8).

First round: every layer alone is reduced to some sizes, the others are full. Second round: the same around the first
answer, with all other layers at theirs and readouts calibrated. Of the first answer, the second and the one that scores
give, the one whose calibrated model is closest to the full one wins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from aireprune.calibration.calls import Call
from aireprune.calibration.distillation import Teacher
from aireprune.calibration.inputs import Inputs, judging
from aireprune.calibration.readout import calibrate
from aireprune.calibration.running import running
from aireprune.calibration.subject import Subject
from aireprune.method.allocation import allocate
from aireprune.method.evidence import Evidence
from aireprune.pruning.layers import Unsuitable
from aireprune.pruning.planning import make_plan
from aireprune.pruning.request import Request
from aireprune.pruning.source import ModuleSource, open_module
from aireprune.pruning.surgery import operate

FIRST = (0.25, 0.5, 1.0, 2.0, 4.0)  # sizes that are tried, compared with the mean share
SECOND = (0.5, 0.7, 1.0, 1.4, 2.0)  # compared with the first answer
BATCHES = 8  # of the inputs that are used

Counts = tuple[int, ...]  # states of each layer that are kept, of every group


def measured_counts(
    source: ModuleSource, request: Request, evidence: Evidence, subject: Subject, inputs: Inputs
) -> Counts:
    """What every layer keeps. inputs: unlabelled; some of them are held out and judge."""
    trials = _Trials(source, request, evidence, subject, inputs)
    full, by_scores = trials.full, trials.planned(evidence)
    total = sum(by_scores)
    mean = total / sum(full)
    alone = [
        {full[layer]: 0.0, **trials.curve(full, layer, [mean * full[layer] * times for times in FIRST], fit=False)}
        for layer in range(len(full))
    ]
    first = tuple(allocate(alone, total))
    near = [trials.curve(first, layer, [first[layer] * times for times in SECOND]) for layer in range(len(full))]
    second = tuple(allocate(near, total)) if all(near) else first
    return min((by_scores, first, second), key=trials.harm)


class _Trials:
    """Reduced models that are made to be measured."""

    def __init__(self, source: ModuleSource, request: Request, evidence: Evidence, subject: Subject, inputs: Inputs):
        self.source, self.request, self.evidence, self.subject = source, request, evidence, subject
        self.inputs = _First(inputs)
        self.teacher = Teacher(source.module, [self.inputs[number] for number in judging(self.inputs)])
        self.full = tuple(layer.states // layer.groups for layer in source.layers)
        self._known: dict[tuple[Counts, bool], float] = {}

    def planned(self, evidence: Evidence) -> Counts:
        plan = make_plan(self.source, self.request, evidence)
        pairs = zip(plan.layers, self.source.layers, strict=True)
        return tuple(len(planned.kept) // layer.groups for planned, layer in pairs)

    def curve(self, others: Counts, layer: int, sizes: Sequence[float], fit: bool = True) -> dict[int, float]:
        """Harm by how many states a layer keeps, with the other layers as given."""
        least, most = min(self.request.budget.min_states, self.full[layer]), self.full[layer]
        found = {}
        for size in sorted({min(most, max(least, round(size))) for size in sizes}):
            counts = (*others[:layer], size, *others[layer + 1 :])
            found[size] = self.harm(counts, fit)
        return {size: harm for size, harm in found.items() if math.isfinite(harm)}

    def harm(self, counts: Counts, fit: bool = True) -> float:
        """How far the model with so many states is from the full one, with or without calibrated readouts."""
        if (counts, fit) not in self._known:
            self._known[counts, fit] = self._measured(counts, fit)
        return self._known[counts, fit]

    def _measured(self, counts: Counts, fit: bool) -> float:
        evidence = replace(self.evidence, counts=counts)
        try:
            surgery = operate(self.source, make_plan(self.source, self.request, evidence), evidence)
        except Unsuitable:
            return math.inf
        model = self.source.apply(surgery)
        if fit:
            reduced = open_module(model, config=self.source.settings, units=self.request.units)
            model = calibrate(self.subject, reduced, self.inputs)
        with running(self.source.module, model):
            return self.teacher.judge(model).harm


class _First:
    """The first batches of others."""

    def __init__(self, inputs: Inputs):
        self._inputs, self.batches = inputs, min(inputs.batches, BATCHES)

    def __len__(self) -> int:
        return sum(len(self[number].first) for number in range(self.batches))

    def __getitem__(self, number: int) -> Call:
        return self._inputs[number]
