"""The error of a layer that reads inputs which vary slowly (docs/method.md section 4.8).

The H2 norm is the output power under white noise, which trained layers do not read. With inputs of unit variance and
E[u_k u_l] = rho^|k - l|, the output power still has a closed form. For modes lam and mu, in place of 1/(1 - lam mu*),

    sum_k sum_l lam^k mu*^l rho^|k - l| = (1 - rho^2 lam mu*) / ((1 - lam mu*) (1 - rho lam) (1 - rho mu*))

and E[x u] = b / (1 - rho lam) in place of b. rho = 0 is white noise.
"""

from __future__ import annotations

import math

import numpy as np

from aireprune.method.reductions.base import Reduction
from aireprune.method.system import ModalSystem, concatenate, one_minus_exp
from aireprune.method.threads import single_threaded

CORRELATION = 0.98  # of neighbouring steps: inputs that change over about 50 steps
WORK = 2**21  # pairs of modes held at a time


def slow_error(reduction: Reduction) -> float:
    """[slow-error] Root mean square of the output error under slow inputs, relative to what all states put out."""
    power = float(slow_power(concatenate([reduction.system, reduction.error])).sum())
    return math.sqrt(float(slow_power(reduction.error).sum()) / power) if power > 0 else 0.0


@single_threaded
def slow_power(system: ModalSystem, correlation: float = CORRELATION) -> np.ndarray:
    """Mean output power of a stable layer under slow inputs, summed over its outputs. (*batch,)"""
    log_rho = math.log(correlation) if correlation else -math.inf
    near = 1 / one_minus_exp(system.log_radius + log_rho, system.angle)  # 1/(1 - rho lam)
    driven = system.b * near[..., None]  # E[x u], (*batch, n, h)
    c = system.c.reshape(*system.batch, -1, system.modes)
    total = np.zeros(system.batch)
    rows = max(1, WORK // max(1, math.prod(system.batch) * system.modes))
    for start in range(0, system.modes, rows):
        total += _pairs(system, driven, c, slice(start, start + rows), log_rho)
    total *= system.share**2 / 2
    if system.directions == 2:
        first = system.share * (system.c @ driven[..., None, :, :]).real  # (*batch, 2, o, h)
        total += 2 * (first[..., 0, :, :] * first[..., 1, :, :]).sum((-2, -1))
    return np.asarray(np.maximum(total, 0.0))


def _pairs(system: ModalSystem, driven: np.ndarray, c: np.ndarray, rows: slice, log_rho: float) -> np.ndarray:
    """c H c* + Re(c S c^T) over pairs of modes, the first of which lies in `rows`. (*batch,)"""
    radius = system.log_radius[..., rows, None] + system.log_radius[..., None, :]
    ours, theirs = system.angle[..., rows, None], system.angle[..., None, :]
    every, total = np.swapaxes(driven, -1, -2), np.zeros(system.batch)
    for columns, readout, angle in ((every.conj(), c.conj(), ours - theirs), (every, c, ours + theirs)):
        sums = one_minus_exp(radius + 2 * log_rho, angle) / one_minus_exp(radius, angle)
        total += ((c[..., rows] @ ((driven[..., rows, :] @ columns) * sums)) * readout).real.sum((-2, -1))
    return total
