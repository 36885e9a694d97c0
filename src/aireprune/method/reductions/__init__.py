"""Ways to make a layer smaller (docs/method.md section 5), one file each, behind one signature.

Every reduction of a linear layer takes the layer, the modes that a plan keeps, perhaps a measured covariance and a
horizon, and returns a `Reduction`: the smaller layer and its exact error. Two more reduce Mamba-2 layers, from measured
moments (`aireprune.method.projection`, `aireprune.method.elimination`).
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
    selective: it is for Mamba-2 layers, which are no such systems.
    """

    name: str
    summary: str
    reduce: Reduce
    selective: bool = False


def _no_system(system: ModalSystem, kept: np.ndarray, covariance: np.ndarray | None, horizon: int | None) -> Reduction:
    raise AireError("This reduction is for Mamba-2 layers, from the moments of their gates.")


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
        Reducer(
            "projected",
            "Mamba-2: new states that lose least, whose gates two more tensors make; needs calibrate=",
            _no_system,
            selective=True,
        ),
        Reducer(
            "fitted",
            "Mamba-2: the rows that make B and C of the kept states are fitted; needs calibrate=",
            _no_system,
            selective=True,
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
