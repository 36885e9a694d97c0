"""The error of a layer that reads inputs which vary slowly (docs/method.md section 4.8).

The H2 norm is the output power under white noise, which trained layers do not read. With inputs of unit variance and
E[u_k u_l] = rho^|k - l|, the output power still has a closed form. For modes lam and mu, in place of 1/(1 - lam mu*),

    sum_k sum_l lam^k mu*^l rho^|k - l| = (1 - rho^2 lam mu*) / ((1 - lam mu*) (1 - rho lam) (1 - rho mu*))

and E[x u] = b / (1 - rho lam) in place of b. rho = 0 is white noise. If the layer has read T steps only, both sums end
before T: with G = (1 - (lam mu*)^T) / (1 - lam mu*) and q(lam) = sum_k<T lam^k rho^(T - 1 - k) the first is

    G (1 - rho^2 lam mu*) / ((1 - rho lam) (1 - rho mu*)) - p(lam) q(mu*) - p(mu*) q(lam)

where p(lam) = rho lam^T / (1 - rho lam).
"""

from __future__ import annotations

import math

import numpy as np

from aireprune.method.gramians import power_sum
from aireprune.method.reductions.base import Reduction
from aireprune.method.system import ModalSystem, concatenate, one_minus_exp
from aireprune.method.threads import single_threaded

CORRELATION = 0.98  # of neighbouring steps: inputs that change over about 50 steps
SEEN = 1000  # steps, about what most models read: states that remember millions are not heard as loud as they could be
WORK = 2**21  # pairs of modes held at a time


def slow_error(reduction: Reduction, horizon: int | None = None) -> float:
    """[slow-error] Root mean square of the output error under slow inputs, relative to what all states put out.

    horizon: steps of the inputs; SEEN where nothing is known of them.
    """
    horizon = horizon or SEEN
    whole = concatenate([reduction.system, reduction.error])
    power = float(slow_power(whole, horizon=horizon).sum())
    return math.sqrt(float(slow_power(reduction.error, horizon=horizon).sum()) / power) if power > 0 else 0.0


@single_threaded
def slow_power(system: ModalSystem, correlation: float = CORRELATION, horizon: int | None = None) -> np.ndarray:
    """Mean output power of a stable layer under slow inputs, summed over its outputs. (*batch,)

    horizon: after so many steps, before which the layer had read nothing; else after infinitely many.
    """
    log_rho = math.log(correlation) if correlation else -math.inf
    ever = 1 / one_minus_exp(system.log_radius + log_rho, system.angle)  # sum of (rho lam)^k
    driven = system.b * ever[..., None]
    c = system.c.reshape(*system.batch, -1, system.modes)
    total = np.zeros(system.batch)
    rows = max(1, WORK // max(1, math.prod(system.batch) * system.modes))
    for start in range(0, system.modes, rows):
        total += _pairs(system, driven, c, slice(start, start + rows), log_rho, horizon)
    total *= system.share**2 / 2
    if horizon is not None and correlation:
        later, meeting = _beyond(system, log_rho, horizon)
        total -= 2 * _product(_put_out(system, later * ever * correlation), _put_out(system, meeting)).sum(-1)
        ever = ever * (1 - later * correlation**horizon)
    if system.directions == 2:
        first = _put_out(system, ever)  # E[x u] of either direction is b times `ever`
        total += 2 * _product(first[..., 0, :, :], first[..., 1, :, :])
    return np.asarray(np.maximum(total, 0.0))


def _pairs(
    system: ModalSystem, driven: np.ndarray, c: np.ndarray, rows: slice, log_rho: float, horizon: int | None
) -> np.ndarray:
    """c H c* + Re(c S c^T) over pairs of modes, the first of which lies in `rows`. (*batch,)"""
    radius = system.log_radius[..., rows, None] + system.log_radius[..., None, :]
    ours, theirs = system.angle[..., rows, None], system.angle[..., None, :]
    every, total = np.swapaxes(driven, -1, -2), np.zeros(system.batch)
    for columns, readout, angle in ((every.conj(), c.conj(), ours - theirs), (every, c, ours + theirs)):
        sums = one_minus_exp(radius + 2 * log_rho, angle) * power_sum(radius, angle, horizon)
        total += ((c[..., rows] @ ((driven[..., rows, :] @ columns) * sums)) * readout).real.sum((-2, -1))
    return total


def _beyond(system: ModalSystem, log_rho: float, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """lam^T and sum_k<T lam^k rho^(T - 1 - k) of every mode. (*batch, n)"""
    last = np.exp(horizon * system.log_radius + 1j * (horizon * system.angle))
    slower = system.log_radius > log_rho  # the larger power is taken out of the sum, so that the rest converges
    sign = np.where(slower, -1.0, 1.0)
    terms = power_sum(sign * (system.log_radius - log_rho), sign * system.angle, horizon)
    largest = np.where(slower, system.log_radius + 1j * system.angle, log_rho)
    return last, np.exp((horizon - 1) * largest) * terms


def _put_out(system: ModalSystem, weights: np.ndarray) -> np.ndarray:
    """s Re(c w b) with a weight for every mode. (*batch, d, o, h)"""
    found: np.ndarray = system.share * (system.c @ (system.b * weights[..., None])[..., None, :, :]).real
    return found


def _product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray((one * other).sum((-2, -1)))
