"""Ways to make a layer smaller (docs/method.md section 5), one file each, behind one signature.

Every reduction takes a layer, the modes that a plan keeps, perhaps a measured covariance and a horizon, and returns a
`Reduction`: the smaller layer and its exact error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aireprune.errors import AireError, did_you_mean
from aireprune.method.reductions.balanced import balanced
from aireprune.method.reductions.balancing import hankel_scores, hankel_values
from aireprune.method.reductions.base import Reduction
from aireprune.method.reductions.poles import ContinuousModes, to_continuous
from aireprune.method.reductions.refit import refit
from aireprune.method.reductions.truncate import truncate
from aireprune.method.system import ModalSystem

Reduce = Callable[[ModalSystem, np.ndarray, np.ndarray | None, int | None], Reduction]


@dataclass(frozen=True)
class Reducer:
    """A reduction by name.

    reduce: (layer, kept modes (*batch, n) of bool, measured covariance or None, horizon or None) -> Reduction.
    """

    name: str
    summary: str
    reduce: Reduce


REDUCTIONS = {
    reducer.name: reducer
    for reducer in (
        Reducer(
            "truncate",
            "the kept states stay as they are (the paper)",
            lambda system, kept, covariance, horizon: truncate(system, kept, horizon),
        ),
        Reducer("refit", "the kept states get the readout that is closest to the full layer (H2-optimal)", refit),
        Reducer(
            "balanced",
            "new states by balanced truncation; Hankel singular values take the place of energies",
            lambda system, kept, covariance, horizon: balanced(system, kept.sum(-1), covariance, horizon),
        ),
    )
}


def find_reduction(name: str) -> Reducer:
    if name not in REDUCTIONS:
        raise AireError(
            f"There is no reduction {name!r}.{did_you_mean(name, REDUCTIONS)} Reductions: {', '.join(REDUCTIONS)}."
        )
    return REDUCTIONS[name]


__all__ = [
    "REDUCTIONS",
    "ContinuousModes",
    "Reducer",
    "Reduction",
    "balanced",
    "find_reduction",
    "hankel_scores",
    "hankel_values",
    "refit",
    "to_continuous",
    "truncate",
]
