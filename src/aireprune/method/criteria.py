"""Scores of single states (docs/method.md section 2). Each is a function of one layer's states, shape (n,).

r = |lam|, b2 = |B_i|^2, c2 = |C_i|^2 (mean over directions). A state with several modes scores their sum.
Stable poles are assumed: callers take unstable states out first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aireprune.errors import AireError
from aireprune.method.states import LayerStates

PUBLISHED_EPSILON = 1e-8


@dataclass(frozen=True)
class Conditions:
    """What a criterion may depend on besides the states."""

    horizon: int | None = None
    seed: int = 0
    layer: int = 0
    measured: np.ndarray | None = None  # scores of the layer's states that were measured on data


def mode_sums(log_radius: np.ndarray, horizon: int | None = None) -> np.ndarray:
    """sum_k r^2k over all steps, 1 / (1 - r^2), or over the first T, (1 - r^2T) / (1 - r^2): [energy] over c2 b2."""
    seen = 1.0 if horizon is None else -np.expm1(2 * horizon * log_radius)
    return np.asarray(seen / -np.expm1(2 * log_radius))


def energy(states: LayerStates, given: Conditions) -> np.ndarray:
    """[energy] c2 b2 / (1 - r^2), or with a horizon [energy-T] c2 b2 (1 - r^2T) / (1 - r^2)."""
    return (states.mean_c2 * states.b2 * mode_sums(states.log_radius, given.horizon)).sum(axis=1)


def pair_energy(states: LayerStates, given: Conditions) -> np.ndarray:
    """[pair-energy] of the real response Re(c lam^t b): [energy] and the interference with the conjugate mode.

    Twice the sum over t of |Re(c lam^t b)|^2 is c2 b2 / (1 - r^2) + Re((sum c^2)(sum b^2) / (1 - lam^2)).
    """
    if states.cross is None:  # real modes have no conjugate
        return energy(states, given)
    squared = 2 * (states.log_radius + 1j * states.angle)
    exact = energy(states, given) + (states.cross / -np.expm1(squared)).real.sum(axis=1)
    return np.maximum(exact, 0)  # never negative but for rounding


def peak(states: LayerStates, given: Conditions) -> np.ndarray:
    """[peak] c2 b2 / (1 - r)^2, the squared H-infinity norm of the mode."""
    return (states.mean_c2 * states.b2 / np.expm1(states.log_radius) ** 2).sum(axis=1)


def magnitude(states: LayerStates, given: Conditions) -> np.ndarray:
    """[magnitude] (r |B| |C|)^2."""
    return (states.mean_c2 * states.b2 * np.exp(2 * states.log_radius)).sum(axis=1)


def random(states: LayerStates, given: Conditions) -> np.ndarray:
    """[random] uniform in [0, 1), from the seed and the layer's number."""
    return np.random.default_rng((given.seed, given.layer)).random(len(states))


def measured(states: LayerStates, given: Conditions) -> np.ndarray:
    """[measured-energy] or [damage], measured on data beforehand (`aireprune.calibration.damage`)."""
    if given.measured is None:
        raise AireError(
            "This method scores states by what they do to real data, and there is none: give inputs with calibrate=."
        )
    if not np.isfinite(given.measured).all():
        raise AireError(f"Layer {states.name}: some of the scores that were measured are not finite.")
    return np.array(given.measured, dtype=np.float64)


def _published_c2(states: LayerStates) -> np.ndarray:
    """The published code's slip: for two directions (|C1| + |C2|)/4, whose sum should have been squared."""
    return states.c2[0] if len(states.c2) == 1 else np.sqrt(states.c2).sum(axis=0) / 4


def energy_published(states: LayerStates, given: Conditions) -> np.ndarray:
    """[energy] as the authors' code computes it."""
    decay = -np.expm1(2 * states.log_radius) + PUBLISHED_EPSILON
    return (_published_c2(states) * states.b2 / decay).sum(axis=1)


def peak_published(states: LayerStates, given: Conditions) -> np.ndarray:
    """[peak] as the authors' code computes it."""
    decay = np.expm1(states.log_radius) ** 2 + PUBLISHED_EPSILON
    return (_published_c2(states) * states.b2 / decay).sum(axis=1)


Criterion = Callable[[LayerStates, Conditions], np.ndarray]

CRITERIA: dict[str, Criterion] = {
    "energy": energy,
    "pair-energy": pair_energy,
    "peak": peak,
    "magnitude": magnitude,
    "random": random,
    "measured-energy": measured,
    "damage": measured,
    "energy-published": energy_published,
    "peak-published": peak_published,
}
WITH_HORIZON = ("energy",)
