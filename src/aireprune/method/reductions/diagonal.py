"""A small real system made diagonal again: poles, inputs and readouts of its stored modes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aireprune.method.system import SILENT, ModalSystem

MAX_CONDITION = 1e6  # beyond, modes cancel each other so much that single precision could not hold them
SMALLEST = 1e-30  # |lam| of a pole at 0


@dataclass(frozen=True)
class Realization:
    """Real matrices x_k = A x_{k-1} + B u_k, y_k = C x_k of m systems whose leading r states are a system too."""

    a: np.ndarray  # (m, r, r)
    b: np.ndarray  # (m, r, h)
    c: np.ndarray  # (m, d, o, r)

    def leading(self, members: np.ndarray, order: int) -> Realization:
        return Realization(self.a[members][:, :order, :order], self.b[members][:, :order], self.c[members][..., :order])


def diagonalize(real: Realization, conj: bool) -> tuple[ModalSystem, np.ndarray, np.ndarray]:
    """The stored modes of each system (then silent ones), how many there are, and the worst eigenvalue condition.

    A = X diag(w) X^-1. A pair w, conj(w) becomes one mode: C X_i x_i + its conjugate = 2 Re(C X_i x_i). A real pole
    becomes one mode with half the readout where y = 2 Re(c x). Inputs and readouts are scaled to equal norms. The
    condition of w_i is |X_i| |row i of X^-1| (Golub and Van Loan, section 7.2.2).
    """
    w, x, inverse, condition = eigen(real.a)
    b, c = inverse @ real.b, real.c @ x[:, None]
    is_real = w.imag == 0
    b[is_real] = b[is_real].real
    c = np.where(is_real[:, None, None, :], c.real / 2, c) * (2.0 if not conj else 1.0)
    norm_b, norm_c = np.sqrt((np.abs(b) ** 2).sum(-1)), np.sqrt((np.abs(c) ** 2).sum((1, 2)))
    audible = (norm_b > 0) & (norm_c > 0)
    scale = np.sqrt(np.where(audible, norm_c, 1) / np.where(audible, norm_b, 1))
    every = ModalSystem(
        np.log(np.maximum(np.abs(w), SMALLEST)),
        np.angle(w),
        b * scale[..., None],
        c / scale[:, None, None, :],
        conj,
    )
    stored = w.imag >= 0
    return every.gather(stored), stored.sum(-1), condition


def eigen(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues, eigenvectors, their inverse, worst condition (m,), infinite if they do not span the space."""
    w, x = np.linalg.eig(a)
    w, x = w.astype(complex), x.astype(complex)
    inverse, condition = np.zeros_like(x), np.full(len(a), np.inf)
    try:
        inverse[:] = np.linalg.inv(x)
        condition[:] = np.sqrt((np.abs(inverse) ** 2).sum(-1)).max(-1, initial=1.0)
    except np.linalg.LinAlgError:
        for i in range(len(a)):
            try:
                inverse[i] = np.linalg.inv(x[i])
                condition[i] = np.sqrt((np.abs(inverse[i]) ** 2).sum(-1)).max(initial=1.0)
            except np.linalg.LinAlgError:
                continue
    return w, x, inverse, condition


def silent_like(system: ModalSystem, size: int) -> ModalSystem:
    """A batch of systems with `size` modes that put out nothing, to be filled in."""
    batch = system.batch
    return ModalSystem(
        np.full((*batch, size), SILENT),
        np.zeros((*batch, size)),
        np.zeros((*batch, size, system.inputs)),
        np.zeros((*batch, system.directions, system.outputs, size)),
        system.conj,
    )


def put(target: ModalSystem, members: np.ndarray, source: ModalSystem) -> None:
    """Write systems into members of a batch that `silent_like` made; modes beyond its size are silent ones."""
    size = min(source.modes, target.modes)
    target.log_radius[members, :size] = source.log_radius[..., :size]
    target.angle[members, :size] = source.angle[..., :size]
    target.b[members, :size] = source.b[..., :size, :]
    target.c[members, ..., :size] = source.c[..., :size]
