"""Hankel singular values and balanced coordinates (Antoulas 2005, section 7.3), for batches of layers.

    P = L_P L_P' ,  Q = L_Q L_Q' ,  L_Q' L_P = U S V'          S = Hankel singular values
    T = L_P V S^-1/2 ,  W = L_Q U S^-1/2 ,  W'T = I             A -> W'AT,  B -> W'B,  C -> CT

in the real states (Re x, Im x). Both directions of a bidirectional layer are stacked as outputs. P is the closed-form
one, the horizon-limited one, or a covariance measured under real inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from aireprune.method.gramians import gramians, observability
from aireprune.method.reductions.diagonal import Realization
from aireprune.method.system import ModalSystem
from aireprune.method.threads import single_threaded

RANK = 1e-10  # singular values below this part of the largest are rounding errors
WORK = 2**21  # Gramian entries held at a time


@single_threaded
def hankel_values(system: ModalSystem, covariance: np.ndarray | None = None, horizon: int | None = None) -> np.ndarray:
    """The 2n Hankel singular values of the real states, descending. (*batch, 2n)"""
    left, right = (psd_factor(gramian) for gramian in _gramians(system, covariance, horizon))
    return np.linalg.svd(_transpose(right) @ left, compute_uv=False)


@single_threaded
def hankel_scores(system: ModalSystem, covariance: np.ndarray | None = None, horizon: int | None = None) -> np.ndarray:
    """What takes the place of energies in the prefix normalisation. (*batch, n), descending

    One stored mode holds two real states, so the i-th scores S_(2i-1)^2 + S_(2i)^2. The squares are the eigenvalues
    of PQ.
    """
    flat = flatten(system)
    scores = np.empty(flat.log_radius.shape)

    def fill(part: slice) -> None:
        given = None if covariance is None else covariance.reshape(-1, *covariance.shape[-2:])[part]
        p, q = _gramians(flat.member(part), given, horizon)
        left = psd_factor(p)
        squares = np.linalg.eigvalsh(_transpose(left) @ q @ left)
        scores[part] = np.maximum(squares[:, ::-1], 0).reshape(len(squares), -1, 2).sum(-1)

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, chunks(flat)))
    return scores.reshape(system.log_radius.shape)


def balance(
    system: ModalSystem, size: int, covariance: np.ndarray | None = None, horizon: int | None = None
) -> tuple[np.ndarray, Realization]:
    """Hankel singular values (m, 2n), and the leading `size` balanced states of m systems; below RANK they are zero."""
    left, right = (psd_factor(gramian) for gramian in _gramians(system, covariance, horizon))
    u, s, vh = np.linalg.svd(_transpose(right) @ left)
    lead = s[:, :size]
    numerical = lead > RANK * s[:, :1]
    scale = np.where(numerical, 1 / np.sqrt(np.where(numerical, lead, 1)), 0)[:, None, :]
    t, w = left @ _transpose(vh[:, :size]) * scale, right @ u[:, :, :size] * scale
    wt = _transpose(w)
    return s, Realization(wt @ system.advance(t), wt @ system.real_b(), system.real_c() @ t[:, None])


def psd_factor(matrix: np.ndarray) -> np.ndarray:
    """L with L L' = matrix (*batch, n, n), positive semidefinite up to rounding errors.

    Scaled to unit diagonal, so that weak states keep their digits. Cholesky where it works, else the eigenvectors, with
    negative eigenvalues set to zero.
    """
    diagonal = np.sqrt(np.maximum(np.diagonal(matrix, axis1=-2, axis2=-1), 0))
    inverse = 1 / np.where(diagonal > 0, diagonal, 1)
    scaled = matrix * inverse[..., :, None] * inverse[..., None, :]
    each = np.arange(matrix.shape[-1])
    scaled[..., each, each] = 1.0  # of silent states too, whose rows of L are zero below
    flat = scaled.reshape(-1, *matrix.shape[-2:])
    return np.asarray(_unit_factor(flat).reshape(matrix.shape) * diagonal[..., None])


def _unit_factor(matrix: np.ndarray) -> np.ndarray:
    """The same for matrices (m, n, n) of unit diagonal: all at once, or one by one if Cholesky fails for some."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        if len(matrix) > 1:
            return np.concatenate([_unit_factor(one) for one in np.split(matrix, len(matrix))])
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0))[:, None, :])


def flatten(system: ModalSystem) -> ModalSystem:
    """The same systems with one batch axis."""
    return reshape(system, (int(np.prod(system.batch)),))


def reshape(system: ModalSystem, batch: tuple[int, ...]) -> ModalSystem:
    old = len(system.batch)

    def shaped(values: np.ndarray) -> np.ndarray:
        return values.reshape(*batch, *values.shape[old:])

    return ModalSystem(shaped(system.log_radius), shaped(system.angle), shaped(system.b), shaped(system.c), system.conj)


def chunks(system: ModalSystem) -> Iterator[slice]:
    """Parts of a batch whose Gramians fit into memory together."""
    size = max(1, WORK // max(1, 4 * system.modes**2))
    return (slice(start, start + size) for start in range(0, len(system.log_radius), size))


def _gramians(system: ModalSystem, covariance: np.ndarray | None, horizon: int | None) -> tuple[np.ndarray, np.ndarray]:
    return gramians(system, horizon) if covariance is None else (covariance, observability(system, horizon))


def _transpose(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)
