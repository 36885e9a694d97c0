"""Discrete modes back to the parameters of a checkpoint: continuous poles, steps, and the factor of B.

ZOH       lam = exp(pole step)                            pole = log(lam)/step, on the principal branch |Im| step <= pi
bilinear  lam = (1 + a)/(1 - a), a = pole step/2          a = (lam - 1)/(lam + 1) = tanh(log(lam)/2)

Both use log|lam| as it is, so that 1 - |lam| survives. A negative real pole has Im(pole) step = pi under ZOH; it is
its own conjugate as a discrete pole, and so it is stored with half its readout like every real pole.

S5: b of the checkpoint is b/factor. S4D has B = 1: its C is c b/factor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aireprune.errors import AireError
from aireprune.method.discretize import DISCRETIZE

MARGIN = 1e-3  # a clipped pole is kept this far, relatively, from the clip


class ContinuousModes(NamedTuple):
    """pole, step and factor such that the discretisation of (pole, step) is exactly (lam, factor)."""

    pole: np.ndarray  # (*batch, n) complex
    step: np.ndarray  # (*batch, n)
    factor: np.ndarray  # (*batch, n) complex: discrete b = factor * continuous b
    clipped: np.ndarray  # (*batch, n) of bool: Re(pole) would be above the clip, and the step could not be changed


def to_continuous(
    log_radius: np.ndarray,
    angle: np.ndarray,
    step: np.ndarray | float,
    discretization: str = "zoh",
    clip: float | None = None,
    free_step: bool = True,
) -> ContinuousModes:
    """Continuous poles for discrete ones, at given steps.

    clip: the model sets Re(pole) to at most this negative number (S5 with clip_eigs: -1e-4). Re(pole) is proportional
    to 1/step, so where the clip would bind, a free step is made smaller; a step that is not free is reported in
    `clipped`.
    """
    if discretization not in DISCRETIZE:
        raise AireError(f"Discretization {discretization!r} is not one of {', '.join(DISCRETIZE)}.")
    if not (log_radius < 0).all():
        raise AireError("A pole on or outside the unit circle has no stable continuous counterpart.")
    log_lam = log_radius + 1j * np.angle(np.exp(1j * angle))
    if discretization == "zoh":
        scaled = log_lam
    else:
        lifted = np.expm1(log_lam)
        scaled = 2 * lifted / (2 + lifted)
    step = np.broadcast_to(np.asarray(step, dtype=np.float64), log_radius.shape)
    clipped = np.zeros(log_radius.shape, dtype=bool)
    if clip is not None:
        largest = scaled.real / (clip * (1 + MARGIN))  # from here on down, Re(scaled)/step <= clip
        binds = step > largest
        step, clipped = (np.where(binds, largest, step), clipped) if free_step else (step, binds)
    pole = scaled / step
    return ContinuousModes(pole, step, DISCRETIZE[discretization](pole, step)[2], clipped)
