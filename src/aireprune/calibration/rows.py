"""The rows that make B and C of a Mamba-2 layer, fitted by gradient descent to what the full layer puts out.

B and C pass a convolution and a SiLU behind in_proj, so no least squares finds them. Starting from the states that stay,
Adam changes only the rows of in_proj and the channels of the convolution that make B and C, so that the layer's output
comes close to the full one's. The layer keeps the layout that stock code loads. It costs STEPS passes through the layer,
forwards and back, with about TOKENS tokens each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from aireprune.calibration.calls import Call
from aireprune.calibration.inputs import held_out
from aireprune.calibration.linear import output_of
from aireprune.calibration.team import total
from aireprune.families import Layer
from aireprune.families.mamba2 import Mamba2Options

STEPS = 200
TOKENS = 1024  # about so many per step; more of them gain little, as more steps do
RATES = (
    0.1,
    0.03,
    0.01,
)  # learning rates, times the root mean square of what is changed; the first that helps is taken
SEED = 20261


@dataclass(frozen=True)
class RowProblem:
    """A reduced layer, the dense layer at its end, and what it is to learn from.

    batches: what the layer is called with and what the dense layer should put out, by number, of those that this
    process runs. count: how many batches all processes run.
    """

    module: nn.Module
    layer: Layer[Mamba2Options]
    linear: nn.Module
    batches: Mapping[int, tuple[Call, Tensor]]
    count: int

    @property
    def places(self) -> list[tuple[nn.Parameter, slice]]:
        """The parameters that make B and C, and which rows of each do."""
        options, count = self.layer.options, 2 * self.layer.groups * self.layer.options.values
        rows = slice(options.first_row, options.first_row + count)
        channels = slice(options.first_channel, options.first_channel + count)
        given: Any = self.module
        named = ((given.in_proj, rows), (given.conv1d, channels))
        pairs = [(getattr(part, leaf), where) for part, where in named for leaf in ("weight", "bias")]
        return [(parameter, where) for parameter, where in pairs if parameter is not None]

    def error(self, call: Call, target: Tensor) -> Tensor:
        """Squared distance of the output, relative to the target's norm."""
        lack = output_of(self.linear, self.module, call) - target
        return lack.float().square().sum() / target.float().square().sum().clamp(min=1e-30)

    @torch.no_grad()
    def judged(self) -> float:
        """The mean error on the batches that are held out, or on all if none are."""
        held = self.numbers(held_out)
        errors = torch.zeros(self.count, dtype=torch.float64)
        for number in held:
            if number in self.batches:
                errors[number] = float(self.error(*self.batches[number]))
        total(errors)
        return sum(errors.tolist()) / len(held)

    def numbers(self, wanted: Callable[[int], bool]) -> list[int]:
        """Of the batches that are wanted, or of all if none is."""
        return list(filter(wanted, range(self.count))) or list(range(self.count))

    def sizes(self) -> list[list[int]]:
        """Sequences and their length, of every batch of all processes."""
        found = torch.zeros(self.count, 2, dtype=torch.int64)
        for number, (_, target) in self.batches.items():
            found[number] = torch.tensor(target.shape[:2])
        total(found)
        return [[int(size) for size in row] for row in found]


def fit_rows(problem: RowProblem, steps: int = STEPS) -> None:
    """Fit, in place; where the error on held-out batches becomes smaller at no rate, nothing changes."""
    before = problem.judged()
    kept = [parameter.detach().clone() for parameter, _ in problem.places]
    for rate in RATES:
        _descend(problem, steps, rate)
        if problem.judged() < before:
            return
        for (parameter, _), old in zip(problem.places, kept, strict=True):
            parameter.data.copy_(old)


def _descend(problem: RowProblem, steps: int, rate: float) -> None:
    learnt = [parameter for parameter, _ in problem.places]
    others = [p for p in problem.module.parameters() if p.requires_grad and all(p is not q for q in learnt)]
    flags = [parameter.requires_grad for parameter in learnt]
    hooks = []
    for parameter in others:
        parameter.requires_grad_(False)
    for parameter, where in problem.places:
        parameter.requires_grad_(True)
        hooks.append(parameter.register_hook(_only(where)))
    try:
        _run(problem, steps, rate)
    finally:
        for hook in hooks:
            hook.remove()
        for parameter, flag in zip(learnt, flags, strict=True):
            parameter.grad = None
            parameter.requires_grad_(flag)
        for parameter in others:
            parameter.requires_grad_(True)


def _run(problem: RowProblem, steps: int, rate: float) -> None:
    groups = [
        {"params": [parameter], "lr": rate * float(parameter.detach()[where].float().square().mean().sqrt())}
        for parameter, where in problem.places
    ]
    optimizer = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    chance = torch.Generator().manual_seed(SEED)
    batches, sizes = problem.numbers(lambda number: not held_out(number)), problem.sizes()
    for _ in range(steps):
        number = batches[int(torch.randint(len(batches), (), generator=chance))]
        sequences, length = sizes[number]
        size = max(1, TOKENS // length)
        first = int(torch.randint(max(1, sequences - size + 1), (), generator=chance))
        _set_gradients(problem, number, slice(first, first + size))
        optimizer.step()
        schedule.step()


def _set_gradients(problem: RowProblem, number: int, part: slice) -> None:
    """Of some sequences of a batch; a process that does not have it is told by the one that does."""
    learnt = [parameter for parameter, _ in problem.places]
    for parameter in learnt:
        parameter.grad = torch.zeros_like(parameter)
    if number in problem.batches:
        call, target = problem.batches[number]
        with torch.enable_grad():
            problem.error(call.rows(part), target[part]).backward()
    total(*(parameter.grad for parameter in learnt if parameter.grad is not None))


def _only(where: slice) -> Any:
    """A hook that leaves the gradient of some rows and makes that of the others zero."""

    def hook(gradient: Tensor) -> Tensor:
        masked = torch.zeros_like(gradient)
        masked[where] = gradient[where]
        return masked

    return hook
