"""The full model as the teacher of a reduced one, on unlabelled inputs.

    loss = KL(full ‖ reduced) + |a - a'|² / |a|²

with a and a' the answers of the full model and of the reduced one. Where an answer is a single number there are no
probabilities, and the second term remains.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aireprune.calibration.calls import Call, answer
from aireprune.calibration.comparison import TINY, Distance, distance_of
from aireprune.errors import AireError

REMEMBERED = 2**26  # numbers


class Teacher:
    """A full model that judges its students on inputs that were kept aside; it remembers its answers if they are few."""

    def __init__(self, full: nn.Module, judges: Sequence[Call]):
        self.full, self.judges = full, judges
        self._answers: dict[int, Tensor] = {}

    def loss(self, student: nn.Module, call: Call) -> Tensor:
        """How far a student that is being trained is from the full model, with gradients."""
        with torch.no_grad():
            wanted = answer(call.on(self.full)).float()
        found = answer(call.on(student)).float()
        if not found.requires_grad:
            raise AireError(
                f"A {type(student).__name__} gives answers that no gradient leads back from, so it cannot be recovered."
            )
        return _divergence(wanted, found) + _relative(wanted, found)

    @torch.no_grad()
    def judge(self, student: nn.Module) -> Distance:
        """How far a student is from the full model on the inputs that were kept aside."""
        return distance_of((self._answer(number), answer(call.on(student))) for number, call in enumerate(self.judges))

    def _answer(self, number: int) -> Tensor:
        if number in self._answers:
            return self._answers[number]
        found = answer(self.judges[number].on(self.full))
        if sum(known.numel() for known in self._answers.values()) + found.numel() <= REMEMBERED:
            self._answers[number] = found
        return found


def _divergence(full: Tensor, other: Tensor) -> Tensor:
    """Mean KL divergence of answers as probabilities, in nats; 0 for answers that are a single number."""
    if full.ndim < 2 or full.shape[-1] < 2:
        return full.new_zeros(())
    p, q = (F.log_softmax(logits.flatten(0, -2), -1) for logits in (full, other))
    return F.kl_div(q, p, reduction="batchmean", log_target=True)


def _relative(full: Tensor, other: Tensor) -> Tensor:
    """Squared distance, relative to the square of the full one."""
    return (other - full).square().sum() / full.square().sum().clamp(min=TINY)
