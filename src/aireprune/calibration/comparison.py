"""How far reduced models are from the full one, on held-out inputs: answers and what every layer's module puts out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.calibration.calls import answer
from aireprune.calibration.inputs import Inputs, judging
from aireprune.calibration.running import running
from aireprune.calibration.sites import Site
from aireprune.calibration.subject import Subject
from aireprune.calibration.team import share, total

AT_ONCE = 2**22  # numbers
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Distance:
    """output: relative distance of the answers. layers: of what each layer's module puts out, by the layer's name.

    kl: mean Kullback-Leibler divergence of the answers as probabilities, in nats; agreement: share of equal first
    choices. Both are None where an answer is a single number.
    """

    output: float
    layers: Mapping[str, float] = field(default_factory=dict)
    kl: float | None = None
    agreement: float | None = None

    @property
    def divergence(self) -> float:
        """Of the answers; their squared distance where they are no distributions."""
        return self.output**2 if self.kl is None else self.kl

    @property
    def harm(self) -> float:
        """Divergence and squared distance of the answers together, one number to compare models by."""
        return (self.kl or 0.0) + self.output**2


@dataclass(frozen=True)
class Fit:
    """Distances to the full model before and after the readouts were fitted, on inputs that were held out."""

    before: Distance
    after: Distance

    @property
    def helped(self) -> bool:
        return self.after.output < self.before.output


@torch.no_grad()
def measure_fit(full: Subject, before: nn.Module, after: nn.Module, inputs: Inputs) -> Fit:
    """Distances of two reduced models to the full one."""
    with running(full.module, before, after):
        sums = [_Sums(), _Sums()]
        for number in share(judging(inputs)):
            call = inputs[number]
            outputs: list[dict[str, Tensor]] = []
            for model in (full.module, before, after):
                with _outputs(model, full.sites) as seen:
                    seen[""] = answer(call.on(model))
                outputs.append(seen)
            for one, other in zip(sums, outputs[1:], strict=True):
                one.add(outputs[0], other)
        for one in sums:
            one.gather(["", *(site.layer.name for site in full.sites)])
    return Fit(sums[0].distance(), sums[1].distance())


def distance_of(answers: Iterable[tuple[Tensor, Tensor]]) -> Distance:
    """Between the answers of a full model and those of another, batch by batch."""
    sums = _Sums()
    for full, other in answers:
        sums.add({"": full}, {"": other})
    return sums.distance()


@contextmanager
def _outputs(model: nn.Module, sites: Sequence[Site]) -> Iterator[dict[str, Tensor]]:
    """What the sites put out while the context lasts, by the names of their layers."""
    seen: dict[str, Tensor] = {}
    hooks = [
        model.get_submodule(site.module).register_forward_hook(
            lambda module, args, output, name=site.layer.name: seen.__setitem__(name, answer(output))
        )
        for site in sites
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _parts(full: Tensor, other: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of both in double precision, some at a time."""
    size = max(1, AT_ONCE // full.shape[-1])
    for a, b in zip(full.flatten(0, -2).split(size), other.flatten(0, -2).split(size), strict=True):
        yield a.double(), b.double()


class _Sums:
    def __init__(self) -> None:
        self.power: dict[str, float] = {}
        self.error: dict[str, float] = {}
        self.rows, self.kl, self.equal = 0, 0.0, 0.0

    def add(self, full: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
        for name, wanted in full.items():
            found = other[name]
            for a, b in _parts(wanted, found):
                self.power[name] = self.power.get(name, 0.0) + float(a.square().sum())
                self.error[name] = self.error.get(name, 0.0) + float((a - b).square().sum())
        wanted, found = full[""], other[""]
        if wanted.ndim >= 2 and wanted.shape[-1] > 1:
            for a, b in _parts(wanted, found):
                p, q = F.log_softmax(a, -1), F.log_softmax(b, -1)
                self.rows += len(p)
                self.kl += float((p.exp() * (p - q)).sum())
                self.equal += float((p.argmax(-1) == q.argmax(-1)).sum())

    def gather(self, names: Sequence[str]) -> None:
        """Add what other processes of the team have seen of the layers with these names."""
        found = torch.tensor(
            [[name in self.power, self.power.get(name, 0.0), self.error.get(name, 0.0)] for name in names],
            dtype=torch.float64,
        )
        answers = torch.tensor([self.rows, self.kl, self.equal], dtype=torch.float64)
        total(found, answers)
        seen = {name: values for name, values in zip(names, found.tolist(), strict=True) if values[0]}
        self.power = {name: values[1] for name, values in seen.items()}
        self.error = {name: values[2] for name, values in seen.items()}
        self.rows, self.kl, self.equal = int(answers[0]), float(answers[1]), float(answers[2])

    def distance(self) -> Distance:
        relative = {name: float(np.sqrt(self.error[name] / max(power, TINY))) for name, power in self.power.items()}
        output = relative.pop("")
        if not self.rows:
            return Distance(output, relative)
        return Distance(output, relative, self.kl / self.rows, self.equal / self.rows)
