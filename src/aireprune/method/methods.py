"""The methods by name: each is nothing but a criterion, a normalisation and a scope (docs/method.md section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from aireprune.errors import AireError, did_you_mean
from aireprune.method.reductions import REDUCTIONS


@dataclass(frozen=True)
class Method:
    name: str
    criterion: str
    prefix: bool  # prefix-normalise the scores of each layer
    scope: str  # "global": one ranking over all layers; "uniform": the same share of every layer
    summary: str
    measured: bool = False  # scores come from data: it needs calibration inputs


METHODS = {
    method.name: method
    for method in (
        Method("aire", "energy", True, "global", "impulse-response energy, prefix-normalised, one global threshold"),
        Method("last", "peak", True, "global", "H-infinity norm, prefix-normalised, one global threshold"),
        Method("lamp", "magnitude", True, "global", "magnitude, prefix-normalised, one global threshold"),
        Method("global-hinf", "peak", False, "global", "H-infinity norm, one global threshold"),
        Method("uniform-hinf", "peak", False, "uniform", "H-infinity norm, the same share of every layer"),
        Method("global-magnitude", "magnitude", False, "global", "magnitude, one global threshold"),
        Method("uniform-magnitude", "magnitude", False, "uniform", "magnitude, the same share of every layer"),
        Method("random", "random", False, "uniform", "seeded random choice, the same share of every layer"),
        Method("global-energy", "energy", False, "global", "aire without prefix normalisation"),
        Method("uniform-energy", "energy", False, "uniform", "aire's energy, the same share of every layer"),
        Method("aire-pair", "pair-energy", True, "global", "aire with the exact energy of the conjugate pair"),
        Method("aire-published", "energy-published", True, "global", "aire with the slip of the authors' code"),
        Method("last-published", "peak-published", True, "global", "last with the slip of the authors' code"),
        Method(
            "aire-calibrated",
            "measured-energy",
            True,
            "global",
            "Mamba, Mamba-2: the energy a state puts out under real gates; needs calibrate=",
            True,
        ),
        Method(
            "damage-calibrated",
            "damage",
            True,
            "global",
            "Mamba, Mamba-2: what removal costs after the others make up for it; needs calibrate=",
            True,
        ),
    )
}


def find_method(name: str) -> Method:
    if name in REDUCTIONS:
        raise AireError(f"{name!r} is no method, which ranks states, but a way to reduce layers: reduce={name!r}.")
    if name not in METHODS:
        raise AireError(f"There is no method {name!r}.{did_you_mean(name, METHODS)} Methods: {', '.join(METHODS)}.")
    return METHODS[name]
