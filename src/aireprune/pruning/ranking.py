"""The states of a model in the order of their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

import numpy as np

from aireprune.extras import data_frame
from aireprune.method.decision import Scoring, score_states
from aireprune.method.evidence import Evidence
from aireprune.method.methods import Method, find_method
from aireprune.method.selection import prefix_normalize
from aireprune.method.states import LayerStates
from aireprune.pruning.source import Source


class ScoreChoices(TypedDict, total=False):
    """Keyword arguments of `aireprune.score`, as `aireprune.plan` has them."""

    horizon: int | None
    seed: int
    granularity: str
    state_axis: Sequence[str]
    measured: Sequence[np.ndarray | None] | None


@dataclass(frozen=True, kw_only=True)
class RankedState:
    """One state of a layer. rank: 1 is the best. radius: |lambda| of its slowest mode. angle: arg lambda of its first.

    b2, c2: squared gains, summed over modes. score: the criterion. compared: what is compared over layers, which is the
    score or its prefix-normalised value. unstable: it has no score, and stands before the others.
    """

    layer: str
    rank: int
    state: int
    radius: float
    angle: float
    b2: float
    c2: float
    score: float
    compared: float
    unstable: bool


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Every state, layer by layer, best first."""

    method: Method
    horizon: int | None
    states: tuple[RankedState, ...]

    def best(self, count: int) -> tuple[RankedState, ...]:
        """The best `count` of every layer; 0: all."""
        return tuple(state for state in self.states if not count or state.rank <= count)

    def to_pandas(self) -> Any:
        """A DataFrame with a row per state."""
        return data_frame([asdict(state) for state in self.states])


def rank(source: Source, method: str, choices: ScoreChoices) -> Ranking:
    """The ranking of a source's states by a method."""
    chosen, horizon = find_method(method), choices.get("horizon")
    evidence = Evidence(scores=choices.get("measured"))
    scoring = Scoring(method=method, horizon=horizon, seed=choices.get("seed", 0), evidence=evidence)
    states = source.states()
    found: list[RankedState] = []
    for layer, of_layer, raw in zip(source.layers, states, score_states(states, scoring), strict=True):
        found += _ranked(layer.name, of_layer, raw, chosen.prefix)
    return Ranking(method=chosen, horizon=horizon, states=tuple(found))


def _ranked(name: str, states: LayerStates, raw: np.ndarray, prefix: bool) -> Iterator[RankedState]:
    """The states of a layer, best first; unstable ones, which have no score, come before the others."""
    stable = ~states.unstable
    compared = np.full(len(raw), np.nan)
    compared[stable] = prefix_normalize(raw[stable]) if prefix else raw[stable]
    order = np.argsort(-np.where(stable, raw, np.inf), kind="stable")
    for place, index in enumerate(order):
        yield RankedState(
            layer=name,
            rank=place + 1,
            state=int(index),
            radius=float(states.radius[index].max()),
            angle=float(states.angle[index][0]),
            b2=float(states.b2[index].sum()),
            c2=float(states.mean_c2[index].sum()),
            score=float(raw[index]),
            compared=float(compared[index]),
            unstable=bool(states.unstable[index]),
        )
