"""Ways to prune that an experiment compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aireprune.errors import AireError, did_you_mean
from aireprune.experiments.stored import number, text, whole
from aireprune.method.methods import find_method
from aireprune.method.reductions import REDUCTIONS


@dataclass(frozen=True)
class Variant:
    """A way to prune: method, reduction, calibrated or not; epsilon and horizon as `aireprune.plan` takes them."""

    name: str
    method: str = "aire"
    reduce: str = "truncate"
    calibrated: bool = False
    epsilon: float = 0.0
    horizon: int | None = None

    @classmethod
    def of(
        cls,
        method: str,
        reduce: str = "truncate",
        calibrated: bool = False,
        *,
        epsilon: float = 0.0,
        horizon: int | None = None,
    ) -> Variant:
        """Named after what it differs in: aire, aire+refit, balanced, balanced+calibrated, aire epsilon=1e-06.

        projected and fitted (Mamba-2) are always calibrated.
        """
        name = method if reduce == "truncate" else f"{method}+{reduce}" if reduce == "refit" else reduce
        name += "+calibrated" if calibrated and not REDUCTIONS[reduce].selective else ""
        variant = cls(name, method, reduce, calibrated, epsilon, horizon)
        return replace(variant, name=" ".join([name, *(f"{key}={value:g}" for key, value in variant.options.items())]))

    @property
    def options(self) -> dict[str, float]:
        """epsilon and horizon, where they were given."""
        found: dict[str, float] = {} if self.epsilon == 0 else {"epsilon": self.epsilon}
        return found if self.horizon is None else {**found, "horizon": self.horizon}

    def to_dict(self) -> dict[str, Any]:
        """As sweep.json has it."""
        return {
            "name": self.name,
            "method": self.method,
            "reduce": self.reduce,
            "calibrated": self.calibrated,
            "options": self.options,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Variant:
        options = values["options"]
        horizon = options.get("horizon")
        return cls(
            text(values["name"]),
            text(values["method"]),
            text(values["reduce"]),
            bool(values["calibrated"]),
            number(options.get("epsilon", 0.0)),
            None if horizon is None else whole(horizon),
        )


def make_variants(methods: Sequence[str], reductions: Sequence[str], calibrated: bool) -> tuple[Variant, ...]:
    """Every method truncated, and the other reductions wherever they can be combined with it."""
    for reduction in reductions:
        if reduction not in REDUCTIONS:
            hint = did_you_mean(reduction, REDUCTIONS)
            raise AireError(f"There is no reduction {reduction!r}.{hint} Reductions: {', '.join(REDUCTIONS)}.")
    found = []
    for method in methods:
        measured = find_method(method).measured
        for reduction in reductions:
            if (reduction == "balanced" or REDUCTIONS[reduction].selective) and method != "aire":
                continue
            needs_data = measured or REDUCTIONS[reduction].selective
            if not needs_data:
                found.append(Variant.of(method, reduction))
            if needs_data or (calibrated and method == "aire"):
                found.append(Variant.of(method, reduction, True))
    if not found:
        raise AireError(
            f"Reduction {' or '.join(reductions)} goes with method aire; none of {', '.join(methods)} is left to sweep."
        )
    return tuple(found)
