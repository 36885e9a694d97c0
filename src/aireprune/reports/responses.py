"""Impulse and frequency responses of a linear layer, before and after, and what its states hold together.

With c and b of one mode and v = lam^k, the squared Frobenius norm of s Re(C Lam^k B) is a form in v,

    s^2/2 ( v* H v + Re v' S v ) ,   H_ij = (c_i* c_j)(b_i* b_j) ,   S_ij = (c_i' c_j)(b_i' b_j)

so that a step costs n^2 instead of a product of matrices. Both directions of a layer are added up, step by step.
"""

from __future__ import annotations

import numpy as np

from aireprune.method.gramians import controllability
from aireprune.method.hinf import gain
from aireprune.method.system import ModalSystem
from aireprune.method.threads import single_threaded
from aireprune.reports.document import Response

STEPS, FREQUENCIES = 120, 140
LONGEST = 1_000_000  # steps
ENDED = 1e-4  # of the largest response: what comes after is not drawn
ANGLES = 60  # of poles, where a gain may have a peak


@single_threaded
def responses(full: ModalSystem, reduced: ModalSystem, error: ModalSystem) -> Response:
    """Of a layer, of what it became and of their difference."""
    systems = (full, reduced, error)
    steps = _steps(full)
    impulse = np.stack([impulse_norms(system, steps) for system in systems])
    ended = max(int(np.flatnonzero(impulse[0] >= ENDED * impulse[0].max())[-1]) + 2, 16)
    omega = _frequencies(full)
    return Response(
        steps=steps[:ended].astype(np.float32),
        impulse=impulse[:, :ended].astype(np.float32),
        omega=omega.astype(np.float32),
        gain=np.stack([gain(system, omega) for system in systems]).astype(np.float32),
    )


def impulse_norms(system: ModalSystem, steps: np.ndarray) -> np.ndarray:
    """Frobenius norm of the impulse response after so many steps, over all outputs, directions and systems. (K,)"""
    c = system.c.reshape(*system.batch, system.directions * system.outputs, system.modes)
    hermitian = _products(c.conj(), c) * _products(_columns(system.b).conj(), _columns(system.b))
    symmetric = _products(c, c) * _products(_columns(system.b), _columns(system.b))
    total = np.empty(len(steps))
    for place, step in enumerate(steps):
        v = np.exp(step * (system.log_radius + 1j * system.angle))
        form = (v.conj() * _apply(hermitian, v) + v * _apply(symmetric, v)).real
        total[place] = form.sum()
    return np.sqrt(np.maximum(system.share**2 / 2 * total, 0.0))


def coupling(system: ModalSystem, horizon: int | None = None) -> np.ndarray:
    """The energy that two modes hold together, (n, n): over any removed modes it adds up to the exact squared H2 error.

    For a single system. The lag 0 that two directions share is in it.
    """
    c, b, n = system.real_c(), system.real_b(), system.modes
    held = np.einsum("doi,doj->ij", c, c) * controllability(system, horizon)
    if system.directions == 2:
        shared = (c[0].T @ c[1]) * (b @ b.T)
        held = held + shared + shared.T
    return held[:n, :n] + held[:n, n:] + held[n:, :n] + held[n:, n:]


def _products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Inner products of columns. (*batch, n, n)"""
    return np.asarray(np.swapaxes(left, -1, -2) @ right)


def _columns(b: np.ndarray) -> np.ndarray:
    return np.swapaxes(b, -1, -2)


def _apply(form: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.asarray((form @ v[..., None])[..., 0])


def _steps(system: ModalSystem) -> np.ndarray:
    """Whole numbers of steps from 0 on, ever further apart, until the slowest mode has died away."""
    slowest = float(system.log_radius.max(initial=-1.0))
    last = int(min(max(-np.log(ENDED) / -slowest, 32), LONGEST)) if slowest < 0 else LONGEST
    return np.unique(np.concatenate([[0], np.round(np.geomspace(1, last, STEPS))]).astype(int))


def _frequencies(system: ModalSystem) -> np.ndarray:
    """Radians per step, ascending: evenly over the decades, and at the angles of the slowest poles."""
    slowest = float(-np.expm1(system.log_radius.max(initial=-1.0)))
    lowest = min(max(slowest / 10, 1e-6), 1e-2)
    order = np.argsort(-system.log_radius.ravel(), kind="stable")[:ANGLES]
    angles = np.abs(np.angle(np.exp(1j * system.angle.ravel()[order])))
    grid = np.geomspace(lowest, np.pi, FREQUENCIES)
    return np.unique(np.concatenate([grid, angles[(angles > lowest) & (angles < np.pi)]]))
