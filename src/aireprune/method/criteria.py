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
class Settings:
    """What a criterion may depend on besides the states."""

    horizon: int | None = None
    seed: int = 0
    layer: int = 0
    measured: np.ndarray | None = None  # scores of the layer's states that were measured on data


def energy(states: LayerStates, settings: Settings) -> np.ndarray:
    """[energy] c2 b2 / (1 - r^2), or with a horizon [energy-T] c2 b2 (1 - r^2T) / (1 - r^2)."""
    decay = -np.expm1(2 * states.log_radius)
    seen = 1.0 if settings.horizon is None else -np.expm1(2 * settings.horizon * states.log_radius)
    return (states.mean_c2 * states.b2 * (seen / decay)).sum(axis=1)


def pair_energy(states: LayerStates, settings: Settings) -> np.ndarray:
    """[pair-energy] of the real response Re(c lam^t b): [energy] and the interference with the conjugate mode.

    Twice the sum over t of |Re(c lam^t b)|^2 is c2 b2 / (1 - r^2) + Re((sum c^2)(sum b^2) / (1 - lam^2)).
    """
    if states.cross is None:  # real modes have no conjugate
        return energy(states, settings)
    squared = 2 * (states.log_radius + 1j * states.angle)
    exact = energy(states, settings) + (states.cross / -np.expm1(squared)).real.sum(axis=1)
    return np.maximum(exact, 0)  # never negative but for rounding


def peak(states: LayerStates, settings: Settings) -> np.ndarray:
    """[peak] c2 b2 / (1 - r)^2, the squared H-infinity norm of the mode."""
    return (states.mean_c2 * states.b2 / np.expm1(states.log_radius) ** 2).sum(axis=1)


def magnitude(states: LayerStates, settings: Settings) -> np.ndarray:
    """[magnitude] (r |B| |C|)^2."""
    return (states.mean_c2 * states.b2 * np.exp(2 * states.log_radius)).sum(axis=1)


def random(states: LayerStates, settings: Settings) -> np.ndarray:
    """[random] uniform in [0, 1), from the seed and the layer's number."""
    return np.random.default_rng((settings.seed, settings.layer)).random(len(states))


def measured(states: LayerStates, settings: Settings) -> np.ndarray:
    """[measured-energy] or [damage], measured on data beforehand (`aireprune.calibration.damage`)."""
    if settings.measured is None:
        raise AireError(
            "This method scores states by what they do to real data. Give inputs with --calibrate SOURCE "
            "(calibrate= in Python)."
        )
    return np.array(settings.measured, dtype=np.float64)


def _published_c2(states: LayerStates) -> np.ndarray:
    """The published code's slip: for two directions (|C1| + |C2|)/4, whose sum should have been squared."""
    return states.c2[0] if len(states.c2) == 1 else np.sqrt(states.c2).sum(axis=0) / 4


def energy_published(states: LayerStates, settings: Settings) -> np.ndarray:
    """[energy] as the authors' code computes it."""
    decay = -np.expm1(2 * states.log_radius) + PUBLISHED_EPSILON
    return (_published_c2(states) * states.b2 / decay).sum(axis=1)


def peak_published(states: LayerStates, settings: Settings) -> np.ndarray:
    """[peak] as the authors' code computes it."""
    decay = np.expm1(states.log_radius) ** 2 + PUBLISHED_EPSILON
    return (_published_c2(states) * states.b2 / decay).sum(axis=1)


Criterion = Callable[[LayerStates, Settings], np.ndarray]

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
