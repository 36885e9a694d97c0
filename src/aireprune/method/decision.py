"""Which states stay: raw scores, what must stay, groups that keep equally many, and the selection.

Several groups of a layer (Mamba-2, channels of one length) must keep equally many states. They are decided on together
in slots: slot k holds the k-th best state of every group and scores their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from aireprune.errors import AireError
from aireprune.method.criteria import CRITERIA, WITH_HORIZON, Conditions
from aireprune.method.evidence import Evidence
from aireprune.method.methods import find_method
from aireprune.method.selection import Budget, Pool, Rule, select
from aireprune.method.states import LayerStates

UNSTABLE = ("refuse", "keep")
DEAD = 1e-24  # summed energy of a layer that puts out nothing: a gain of 1e-12


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How states are scored: the method and what its criterion depends on."""

    method: str = "aire"
    horizon: int | None = None
    seed: int = 0
    evidence: Evidence = field(default_factory=Evidence)


@dataclass(frozen=True)
class Decision:
    """The kept states of every layer, ascending, and the score they reached."""

    kept: list[np.ndarray]
    threshold: float


def decide(states: Sequence[LayerStates], scores: Sequence[np.ndarray], budget: Budget, rule: Rule) -> Decision:
    """Keep the states that score best. scores: (n,) per layer, NaN for those that always stay.

    A ratio is a share of the states that have a gain; silent ones go first and are not counted.
    """
    slots = [_slots(values, layer.groups) for values, layer in zip(scores, states, strict=True)]
    arranged = [_in_slots(values, slot) for values, slot in zip(scores, slots, strict=True)]
    pool = Pool(
        scores=[values.sum(axis=0) for values in arranged],
        always=[np.isnan(values).any(axis=0) for values in arranged],
        counted=[-(-int((~layer.silent).sum()) // layer.groups) for layer in states],
    )
    selection = select(pool, budget, rule)
    kept = []
    for slot, chosen in zip(slots, selection.kept, strict=True):
        first = np.arange(len(slot))[:, None] * slot.shape[1]  # index of each group's first state
        kept.append(np.sort((first + slot[:, chosen]).ravel()))
    return Decision(kept, selection.threshold)


def score_states(states: Sequence[LayerStates], scoring: Scoring) -> list[np.ndarray]:
    """Raw scores per layer, before normalisation; NaN for unstable states, which have none."""
    criterion = find_method(scoring.method).criterion
    if scoring.horizon is not None and criterion not in WITH_HORIZON:
        raise AireError(f"A horizon belongs to the energy criterion; method {scoring.method!r} scores by {criterion}.")
    if scoring.horizon is not None and scoring.horizon < 1:
        raise AireError(f"The horizon is a number of time steps, 1 or more; got {scoring.horizon}.")
    scores = []
    for number, layer in enumerate(states):
        given = Conditions(scoring.horizon, scoring.seed, number, scoring.evidence.score(number))
        with np.errstate(divide="ignore", invalid="ignore"):  # unstable states, blanked below
            values = CRITERIA[criterion](layer, given)
        values[layer.silent] = 0.0
        values[layer.unstable] = np.nan
        scores.append(values)
    return scores


def energies(states: Sequence[LayerStates]) -> list[np.ndarray]:
    """[energy] of every state, per layer; NaN for unstable ones."""
    return score_states(states, Scoring())


def check_stability(states: Sequence[LayerStates], policy: str) -> None:
    """Raise under the policy 'refuse' if there are unstable states; under 'keep' they always stay, unscored."""
    if policy not in UNSTABLE:
        raise AireError(f"The policy for unstable states is 'refuse' or 'keep', not {policy!r}.")
    if policy == "keep" or not any(layer.unstable.any() for layer in states):
        return
    where = "; ".join(
        f"{layer.name} state {', '.join(map(str, np.flatnonzero(layer.unstable)[:8]))}"
        f"{' …' if layer.unstable.sum() > 8 else ''}"
        for layer in states
        if layer.unstable.any()
    )
    raise AireError(
        f"Unstable poles (|lambda| >= 1) have infinite energy and cannot be ranked: {where}. Allow them with "
        "unstable='keep': they then always stay and the others are ranked without them."
    )


def energy_share(values: np.ndarray, kept: np.ndarray) -> float:
    """The share of the summed energies that the kept states hold (stable states only).

    Where all energies are zero, or too small for a number, all states hold everything and fewer hold nothing.
    """
    total = float(np.nansum(values))
    if total > 0:
        return float(np.nansum(values[kept])) / total
    return 1.0 if len(kept) == len(values) else 0.0


def is_dead(values: np.ndarray) -> bool:
    """Whether a layer's energies say that its states put out nothing."""
    return bool(len(values) and np.isfinite(values).all() and values.sum() < DEAD)


def _in_slots(values: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Values of states (n,) arranged by group and slot (groups, slots)."""
    return np.take_along_axis(values.reshape(slots.shape), slots, axis=1)


def _slots(scores: np.ndarray, groups: int) -> np.ndarray:
    """Which states are decided on together, (groups, slots): slot k holds one state of every group.

    One group: slot k is state k. Several groups must keep equally many, so slot k holds the k-th best of each.
    """
    if groups == 1:
        return np.arange(len(scores))[None, :]
    ranked = np.where(np.isnan(scores), np.inf, scores).reshape(groups, -1)
    return np.argsort(-ranked, axis=1, kind="stable")
