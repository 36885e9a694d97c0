"""Diagonal systems fitted to others: exact where they can be, and otherwise as far off as they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag

from aireprune.method.diagonal_fit import fit_diagonal
from aireprune.method.gramians import distance_energy
from aireprune.method.reductions.diagonal import Realization, diagonalize
from aireprune.method.system import ModalSystem

EPS = 6e-8


def single(system: ModalSystem, members: np.ndarray) -> ModalSystem:
    """What single precision holds."""
    log = np.log(-system.log_radius).astype(np.float32).astype(float)
    angle = system.angle.astype(np.float32).astype(float)
    return ModalSystem(-np.exp(log), angle, system.b, system.c.astype(np.complex64))


def as_it_is(system: ModalSystem, members: np.ndarray) -> ModalSystem:
    return system


def rotation(radius: float, angle: float) -> np.ndarray:
    return radius * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def chain(radius: float, angle: float, length: int) -> np.ndarray:
    """A pair of poles `length` times in one Jordan chain; angle 0: a real pole."""
    block = rotation(radius, angle) if angle else np.array([[radius]])
    size = len(block)
    a = np.kron(np.eye(length), block)
    for i in range(length - 1):
        a[i * size : (i + 1) * size, (i + 1) * size : (i + 2) * size] = (1 - radius) * np.eye(size)
    return a


def realization(matrices: list[np.ndarray], directions: int = 1, outputs: int = 1, seed: int = 0) -> Realization:
    """Systems with these matrices in random orthogonal coordinates."""
    rng = np.random.default_rng(seed)
    n = len(matrices[0])
    turns = [np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in matrices]
    a = np.stack([turn @ matrix @ turn.T for turn, matrix in zip(turns, matrices, strict=True)])
    return Realization(a, rng.standard_normal((len(a), n, 1)), rng.standard_normal((len(a), directions, outputs, n)))


def impulse_response(real: Realization, length: int) -> np.ndarray:
    """(m, d, o, length), step by step."""
    out, x = [], real.b
    for _ in range(length):
        out.append((real.c @ x[:, None])[..., 0])
        x = real.a @ x
    return np.stack(out, -1)


def relative_errors(real: Realization, system: ModalSystem, length: int = 6000) -> np.ndarray:
    wanted = impulse_response(real, length)
    found = np.moveaxis(system.kernel(length)[..., 0], 2, -1)
    return np.linalg.norm((found - wanted).reshape(len(wanted), -1), axis=1) / np.linalg.norm(
        wanted.reshape(len(wanted), -1), axis=1
    )


def distinct(seed: int = 0, count: int = 40) -> Realization:
    """Well-conditioned systems with two pairs and two real poles, more of them than are fitted at a time."""
    rng = np.random.default_rng(seed)
    matrices = [
        block_diag(rotation(r[0], 0.3), rotation(r[1], 1.2), [[r[2]]], [[-r[3]]])
        for r in rng.uniform(0.5, 0.99, (count, 4))
    ]
    return realization(matrices, seed=seed)


def test_it_is_the_exact_diagonal_form_where_there_is_one() -> None:
    real = distinct()
    fit = fit_diagonal(real, 4, as_it_is, 1e-12)
    exact, stored, condition = diagonalize(real, True)
    assert stored.max() == 4
    assert condition.max() < 100
    assert np.sqrt(distance_energy(exact, fit.system) / fit.energy).max() < 1e-6
    assert relative_errors(real, fit.system).max() < 1e-6


@pytest.mark.parametrize(("angle", "length"), [(0.7, 2), (0.7, 3), (0.05, 3), (0.0, 2), (0.0, 4)])
@pytest.mark.parametrize("radius", [0.8, 0.99, 0.999])
def test_defective_systems(angle: float, length: int, radius: float) -> None:
    other = rotation(0.9, 2.0)
    real = realization([block_diag(chain(radius, angle, length), other) for _ in range(5)])
    assert np.linalg.cond(np.linalg.eig(real.a[0])[1]) > 1e6
    fit = fit_diagonal(real, real.a.shape[-1], single, EPS)
    errors = relative_errors(real, fit.system, 20000)
    np.testing.assert_allclose(fit.relative_errors, errors, rtol=1e-2, atol=1e-8)
    assert errors.max() < 3e-3
    assert fit.system.stable


def test_several_outputs_and_directions_share_their_poles() -> None:
    real = realization([block_diag(chain(0.95, 0.4, 2), [[0.3]]) for _ in range(3)], directions=2, outputs=3)
    fit = fit_diagonal(real, 5, single, EPS)
    assert fit.system.c.shape[1:3] == (2, 3)
    errors = relative_errors(real, fit.system)
    assert errors.max() < 1e-3
    np.testing.assert_allclose(fit.relative_errors, errors, rtol=1e-4)


def test_few_modes_give_a_reduced_system() -> None:
    """Never more modes than asked for, and the error is that of what is returned."""
    real = distinct(1, 6)
    for modes in (1, 2, 3):
        fit = fit_diagonal(real, modes, single, EPS)
        assert fit.system.modes == modes
        errors = relative_errors(real, fit.system)
        np.testing.assert_allclose(fit.relative_errors, errors, rtol=1e-4, atol=1e-7)
        assert errors.max() <= 1


def test_a_long_memory_is_accounted_for() -> None:
    """Longer than the impulse response that is looked at, with a chain."""
    real = realization([chain(1 - 1e-6, 0.0, 2)])
    fit = fit_diagonal(real, 2, as_it_is, EPS)
    assert fit.relative_errors.max() < 0.05
    assert fit.energy[0] == pytest.approx(
        float((impulse_response(real, 1)[0] ** 2).sum() + _later_energy(real)), rel=1e-6
    )


def _later_energy(real: Realization) -> float:
    from scipy.linalg import solve_discrete_lyapunov

    a, b, c = real.a[0], real.b[0], real.c[0, 0]
    return float((c @ solve_discrete_lyapunov(a, a @ b @ (a @ b).T) @ c.T)[0, 0])


def test_a_system_that_puts_out_nothing() -> None:
    real = distinct(2, 2)
    fit = fit_diagonal(Realization(real.a, real.b, 0 * real.c), 3, single, EPS)
    assert not fit.energy.any()
    assert not fit.relative_errors.any()
    assert not fit.system.c.any()
