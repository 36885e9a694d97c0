"""What came of pruning, and how much harm it did: expected from weights, or measured on inputs (docs/method.md section 4.8).

Without data every layer has an expected error: [slow-error] where it is linear and time-invariant, and the root of the
share of [energy] that is gone where it is selective, whose states put out uncorrelated signals. Both rank the models of
our sweeps by what they lose; the plain H2 error does not (`tools/predictors.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aireprune.families import FAMILIES, LTIFamily
from aireprune.pruning.plan import LayerPlan, Plan

if TYPE_CHECKING:
    from torch import nn

    from aireprune.calibration.comparison import Distance, Fit
    from aireprune.calibration.recovery import Recovered

LARGE = 0.3  # expected error from which on most models of our sweeps lose more than five points of accuracy
LARGE_BALANCED = 0.5  # the same for balanced truncation, which costs less at the same error,
LARGE_BALANCED_CHANNELS = 0.25  # and for that of S4D, whose channels are systems of their own
APART = 0.9  # agreement with the full model's answers, below which a pruned one is called damaged


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """expected: error of every layer by name, None where nothing can be said; limit: from where on that is much. The rest is
    measured on held-out inputs, None without any.

    output_error: relative distance of what every layer's module puts out. kl: mean Kullback-Leibler divergence of the
    answers, in nats. agreement: share of equal first choices.
    """

    expected: Mapping[str, float | None]
    limit: float
    output_error: Mapping[str, float] | None = None
    kl: float | None = None
    agreement: float | None = None

    @classmethod
    def of(cls, plan: Plan, measured: Distance | None = None) -> Outcome:
        """Of a plan that was applied. measured: how far the result is from the full model."""
        slow = {layer["name"]: layer.get("slow_error") for layer in plan.certificate or ()}
        expected = {layer.name: _expected(layer, plan, slow.get(layer.name)) for layer in plan.layers}
        limit = limit_for(plan.reduce, {layer.family for layer in plan.layers})
        if measured is None:
            return cls(expected=expected, limit=limit)
        errors = dict(measured.layers)
        if len(errors) == len(expected):  # a file may call its layers otherwise than the model that was built from it
            errors = dict(zip(expected, errors.values(), strict=True))
        return cls(
            expected=expected, limit=limit, output_error=errors or None, kl=measured.kl, agreement=measured.agreement
        )

    @property
    def error(self) -> float | None:
        """Expected error of the model: the root mean square over its layers, None if it is not known of all."""
        values = [error for error in self.expected.values() if error is not None]
        if not values or len(values) < len(self.expected):
            return None
        return math.sqrt(sum(error**2 for error in values) / len(values))

    @property
    def is_bad(self) -> bool:
        """Whether the answers are likely to be, or were measured to be, others than the full model's."""
        if self.agreement is not None:
            return self.agreement < APART
        return self.error is not None and self.error > self.limit


@dataclass(frozen=True)
class Pruned:
    """What came out: the plan that was applied, what a user should know, the model if one was built, and its fit."""

    plan: Plan
    notices: tuple[str, ...]
    model: nn.Module | None = None
    fit: Fit | None = None  # of a calibration
    recovered: Recovered | None = None
    full: nn.Module | None = None  # the model before, if it was built from a checkpoint

    @property
    def distance(self) -> Distance | None:
        """To the full model, measured on what was held out of calibration or recovery if there was one."""
        if self.recovered is not None and self.plan.recovered:
            return self.recovered.after
        fit = self.fit
        return None if fit is None else fit.after if self.plan.calibrated else fit.before

    @property
    def outcome(self) -> Outcome:
        """What it did to the answers."""
        return Outcome.of(self.plan, self.distance)


def limit_for(reduce: str, families: set[str]) -> float:
    """The expected error from which on damage is likely."""
    if reduce != "balanced":
        return LARGE
    return LARGE_BALANCED_CHANNELS if "s4d" in families else LARGE_BALANCED


def _expected(layer: LayerPlan, plan: Plan, slow: float | None) -> float | None:
    if slow is not None or plan.calibrated:
        return slow
    if len(layer.kept) == layer.states:
        return 0.0
    selective = not isinstance(FAMILIES[layer.family], LTIFamily)
    return layer.predicted_error if selective else None
