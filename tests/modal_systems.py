"""Random diagonal layers, and the same layers as plain real matrices for the oracles (slycot, scipy, pyMOR)."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from aireprune.method.gramians import gramians
from aireprune.method.system import ModalSystem

CONVENTIONS = [(conj, directions) for conj in (True, False) for directions in (1, 2)]


def random_system(seed, modes=6, inputs=2, outputs=3, directions=1, conj=True, batch=(), damping=1.0, spread=np.pi):
    """damping: 1 - |lam| lies between 10^-damping and 1; spread: angles between -spread and spread."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.normal(size=(*batch, *shape)) + 1j * rng.normal(size=(*batch, *shape))

    return ModalSystem(
        -(10 ** rng.uniform(-damping, 0.2, size=(*batch, modes))),
        rng.uniform(-spread, spread, size=(*batch, modes)),
        normal(modes, inputs),
        normal(directions, outputs, modes),
        conj,
    )


def systems(max_modes=8, directions=(1, 2)):
    return st.builds(
        random_system,
        seed=st.integers(0, 2**31),
        modes=st.integers(1, max_modes),
        inputs=st.integers(1, 4),
        outputs=st.integers(1, 4),
        directions=st.sampled_from(directions),
        conj=st.booleans(),
        damping=st.sampled_from([0.5, 2.0, 4.0]),
        spread=st.sampled_from([0.0, 0.05, np.pi]),
    )


def real_matrices(system):
    """A, B and C (d, o, 2n) of y_k = C x_k, x_k = A x_{k-1} + B u_k."""
    return system.advance(np.eye(2 * system.modes)), system.real_b(), system.real_c()


def two_sided(system):
    """A, B, C, D of the true operator in z: backwards in time means the poles 1/lam."""
    a, b, c = real_matrices(system)
    if system.directions == 1:
        return a, b, c[0] @ a, c[0] @ b
    inverse = np.linalg.inv(a)
    zero = np.zeros_like(a)
    return np.block([[a, zero], [zero, inverse]]), np.vstack([b, b]), np.hstack([c[0] @ a, -c[1] @ inverse]), c[0] @ b


def simulated_energy(kernel):
    """Of (d, length, o, h); both directions meet at lag 0."""
    energy = (kernel**2).sum()
    return energy + 2 * (kernel[0, 0] * kernel[1, 0]).sum() if len(kernel) == 2 else energy


def written_out_gramians(system, horizon=None):
    """P and Q as docs/method.md writes them, for the states (x, conj(x)) and the columns (c, conj(c)) s/2."""
    p, q = gramians(system, horizon)
    eye = np.eye(system.modes)
    basis = np.block([[eye, 1j * eye], [eye, -1j * eye]])  # (x, conj x) = basis (Re x, Im x)
    inverse = basis.conj().T / 2
    return basis @ p @ basis.conj().T, inverse.conj().T @ q @ inverse
