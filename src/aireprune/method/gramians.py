"""Closed-form Gramians and exact energies (docs/method.md section 4; Antoulas 2005, sections 4.3 and 5.5).

With the conjugates written out, P_ij = (B_i . conj(B_j)) / (1 - lam_i conj(lam_j)), and Q likewise from C. Here they
are returned for the real states (Re x, Im x), where they are real symmetric (2n, 2n): P is the covariance of the
states under white noise. With a horizon T every 1/(1 - z) becomes (1 - z^T)/(1 - z).

Two directions. The kernel is C1 lam^k B to the future, C2 lam^k B to the past, (C1 + C2) B at lag 0, so that

    energy = tr(C1 P C1') + tr(C2 P C2') + 2 tr(C1 B B' C2')
           = 1/2 tr(C+ (P + BB') C+') + 1/2 tr(C- (P - BB') C-') ,   C+ = C1 + C2 ,  C- = C1 - C2

which is exact for the true operator. `stacked` leaves the lag-0 term out: the two directions as separate outputs.
"""

from __future__ import annotations

import numpy as np

from aireprune.errors import AireError
from aireprune.method.criteria import mode_sums
from aireprune.method.system import ModalSystem, difference, one_minus_exp


def controllability(system: ModalSystem, horizon: int | None = None) -> np.ndarray:
    """P of the real states. (*batch, 2n, 2n)"""
    return _controllability(system, *_power_sums(system, horizon))


def observability(system: ModalSystem, horizon: int | None = None) -> np.ndarray:
    """Q of the real states; directions stacked as outputs. (*batch, 2n, 2n)"""
    return _observability(system, *_power_sums(system, horizon))


def gramians(system: ModalSystem, horizon: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """P and Q of the real states."""
    sums = _power_sums(system, horizon)
    return _controllability(system, *sums), _observability(system, *sums)


def energy(system: ModalSystem, horizon: int | None = None, stacked: bool = False) -> np.ndarray:
    """Exact energy (squared H2 norm) of the layer, tr(C P C*). (*batch,)"""
    return energy_under(system, controllability(system, horizon), stacked)


def energy_under(system: ModalSystem, covariance: np.ndarray, stacked: bool = False) -> np.ndarray:
    """The same for a given covariance of the real states: the mean output power, with the lag-0 term of white noise."""
    c = system.real_c()
    total = np.einsum("...ij,...ij->...", c @ covariance[..., None, :, :], c).sum(-1)
    if system.directions == 2 and not stacked:
        first = c @ system.real_b()[..., None, :, :]
        total = total + 2 * np.einsum("...ij,...ij->...", first[..., 0, :, :], first[..., 1, :, :])
    return np.asarray(np.maximum(total, 0.0))


def error_energy(system: ModalSystem, c: np.ndarray, horizon: int | None = None, stacked: bool = False) -> np.ndarray:
    """Exact squared H2 error of any other readout c (zero on pruned modes): tr((C - C~) P (C - C~)*). (*batch,)"""
    return energy(system.with_c(system.c - c), horizon, stacked)


def distance_energy(
    full: ModalSystem, reduced: ModalSystem, horizon: int | None = None, stacked: bool = False
) -> np.ndarray:
    """Exact squared H2 distance of two systems with different poles. (*batch,)

    The Gramian of the difference holds the cross Gramians. Distances below 1e-8 of the norms are rounding errors.
    """
    return energy(difference(full, reduced), horizon, stacked)


def state_energies(system: ModalSystem, horizon: int | None = None) -> np.ndarray:
    """[energy] or [energy-T] of every stored mode as docs/method.md section 2 scores it. (*batch, n)"""
    c2 = (np.abs(system.c) ** 2).sum(-2).mean(-2)
    b2 = (np.abs(system.b) ** 2).sum(-1)
    return np.asarray(c2 * b2 * mode_sums(system.log_radius, horizon))


def _controllability(system: ModalSystem, same: np.ndarray, other: np.ndarray) -> np.ndarray:
    b = system.b
    return _covariance((b @ _adjoint(b)) * same, (b @ _transpose(b)) * other)


def _observability(system: ModalSystem, same: np.ndarray, other: np.ndarray) -> np.ndarray:
    """With H_ij = conj(c_i).c_j / (1 - conj(lam_i) lam_j) and S_ij = c_i.c_j / (1 - lam_i lam_j), for x = a + ib:

    x*Hx + Re(x^T S x) times s^2/2 = a' Re(H + S) a + b' Re(H - S) b - 2 a' Im(H + S) b, times s^2/2.
    """
    c = system.c.reshape(*system.batch, system.directions * system.outputs, system.modes)
    hermitian, symmetric = (_adjoint(c) @ c) * same.conj(), (_transpose(c) @ c) * other
    plus, minus = hermitian + symmetric, hermitian - symmetric
    return system.share**2 / 2 * _blocks(plus.real, -plus.imag, minus.real)


def _power_sums(system: ModalSystem, horizon: int | None) -> tuple[np.ndarray, np.ndarray]:
    """sum_k z^k over k >= 0 (or k < T) for z = lam_i conj(lam_j) and for z = lam_i lam_j. (*batch, n, n)"""
    if horizon is None:
        system.require_stable()
    elif horizon < 1:
        raise AireError(f"The horizon is a number of time steps, 1 or more; got {horizon}.")
    x = system.log_radius[..., :, None] + system.log_radius[..., None, :]
    angle = system.angle
    return (
        power_sum(x, angle[..., :, None] - angle[..., None, :], horizon),
        power_sum(x, angle[..., :, None] + angle[..., None, :], horizon),
    )


def power_sum(x: np.ndarray, y: np.ndarray, horizon: int | None) -> np.ndarray:
    """Sum of z^k over k >= 0 (or k < T) for z = exp(x + iy)."""
    gap = one_minus_exp(x, y)
    if horizon is None:
        return 1 / gap
    endless = gap == 0  # z = 1: every term of the sum is 1
    seen = np.where(endless, horizon, one_minus_exp(horizon * x, horizon * y))
    return seen / np.where(endless, 1.0, gap)


def _covariance(hermitian: np.ndarray, symmetric: np.ndarray) -> np.ndarray:
    """x = a + ib has E[aa'] = Re(H + S)/2, E[bb'] = Re(H - S)/2, E[ab'] = Im(S - H)/2 with H = E[xx*], S = E[xx^T]."""
    plus, minus = hermitian + symmetric, hermitian - symmetric
    return _blocks(plus.real, -minus.imag, minus.real) / 2


def _blocks(upper: np.ndarray, corner: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """The symmetric matrix [[upper, corner], [corner', lower]]; rounding errors against symmetry are averaged out."""
    n = upper.shape[-1]
    out = np.empty((*upper.shape[:-2], 2 * n, 2 * n))
    out[..., :n, :n] = (upper + _transpose(upper)) / 2
    out[..., n:, n:] = (lower + _transpose(lower)) / 2
    out[..., :n, n:] = corner
    out[..., n:, :n] = _transpose(corner)
    return out


def _transpose(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)


def _adjoint(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2).conj()
