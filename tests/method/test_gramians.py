"""Closed forms equal simulated sums, in every storage convention."""

from __future__ import annotations

import numpy as np
import pytest
from modal_systems import CONVENTIONS, random_system, real_matrices, simulated_energy, written_out_gramians

from aireprune.errors import AireError
from aireprune.method import gramians
from aireprune.method.system import ModalSystem, concatenate, difference


@pytest.mark.parametrize(("conj", "directions"), CONVENTIONS)
@pytest.mark.parametrize("horizon", [None, 1, 9])
def test_energy_is_the_sum_of_the_squared_kernel(conj, directions, horizon):
    system = random_system(1, conj=conj, directions=directions)
    kernel = system.kernel(horizon or 2000)
    assert gramians.energy(system, horizon) == pytest.approx(simulated_energy(kernel), rel=1e-12)
    assert gramians.energy(system, horizon, stacked=True) == pytest.approx((kernel**2).sum(), rel=1e-12)


@pytest.mark.parametrize("conj", [True, False])
def test_kernel_is_the_recurrence(conj):
    system = random_system(2, conj=conj)
    x = np.zeros(system.modes, complex)
    u = np.array([1.0, -2.0])
    for k in range(5):
        x = system.lam * x + (system.b @ u if k == 0 else 0)
        y = (2 if conj else 1) * (system.c[0] @ x).real
        np.testing.assert_allclose(system.kernel(5)[0, k] @ u, y, rtol=1e-12)


@pytest.mark.parametrize(("conj", "directions"), CONVENTIONS)
def test_real_gramians_solve_their_lyapunov_equations(conj, directions):
    linalg = pytest.importorskip("scipy.linalg")
    system = random_system(3, conj=conj, directions=directions)
    a, b, c = real_matrices(system)
    p, q = gramians.gramians(system)
    stacked = c.reshape(-1, a.shape[0])
    np.testing.assert_allclose(p, linalg.solve_discrete_lyapunov(a, b @ b.T), atol=1e-9)
    np.testing.assert_allclose(q, linalg.solve_discrete_lyapunov(a.T, stacked.T @ stacked), atol=1e-9)


@pytest.mark.parametrize("horizon", [None, 6])
@pytest.mark.parametrize("conj", [True, False])
def test_written_out_gramians_are_those_of_the_method(conj, horizon):
    system = random_system(4, conj=conj, directions=2)
    full = system.full()
    lam = np.exp(full.log_radius + 1j * full.angle)
    z = np.outer(lam, lam.conj())
    sums = (1 if horizon is None else 1 - z**horizon) / (1 - z)
    c = full.c.reshape(-1, len(lam))
    p, q = written_out_gramians(system, horizon)
    np.testing.assert_allclose(p, (full.b @ full.b.conj().T) * sums, atol=1e-10)
    np.testing.assert_allclose(q, (c.conj().T @ c) * sums.conj(), atol=1e-10)


@pytest.mark.parametrize(("conj", "directions"), CONVENTIONS)
@pytest.mark.parametrize("horizon", [None, 5])
def test_distance_of_two_systems(conj, directions, horizon):
    full = random_system(5, conj=conj, directions=directions)
    other = random_system(6, modes=3, conj=not conj, directions=directions)
    kernel = full.kernel(horizon or 2000) - other.kernel(horizon or 2000)
    assert gramians.distance_energy(full, other, horizon) == pytest.approx(simulated_energy(kernel), rel=1e-10)


def test_error_of_another_readout():
    system = random_system(7, directions=2)
    c = system.c.copy()
    c[..., 2:] = 0
    expected = simulated_energy(system.with_c(system.c - c).kernel(2000))
    assert gramians.error_energy(system, c) == pytest.approx(expected, rel=1e-10)
    assert gramians.distance_energy(system, system.take(np.array([0, 1]))) == pytest.approx(expected, rel=1e-8)


def test_h2_norm_agrees_with_slycot():
    slycot = pytest.importorskip("slycot")
    for seed, conj in enumerate([True, False]):
        a, b, c = real_matrices(system := random_system(seed, conj=conj, damping=3))
        norm = slycot.ab13bd("D", "H", len(a), b.shape[1], c.shape[1], a, b, c[0], np.zeros((c.shape[1], b.shape[1])))
        assert gramians.energy(system) == pytest.approx(norm**2, rel=1e-9)


def test_no_cancellation_next_to_the_unit_circle():
    one = np.ones((1, 1))
    system = ModalSystem(np.array([-1e-13]), np.array([np.pi / 2]), one, one[None], conj=False)
    p, _ = written_out_gramians(system)
    assert p[0, 0].real == pytest.approx(1 / 2e-13, rel=1e-10)
    assert gramians.state_energies(system)[0] == pytest.approx(1 / 2e-13, rel=1e-10)


def test_unstable_poles_need_a_horizon():
    one = np.ones((1, 1))
    edge = ModalSystem(np.array([0.0]), np.array([0.0]), one, one[None], conj=False)
    with pytest.raises(AireError, match="does not decay"):
        gramians.energy(edge)
    assert gramians.energy(edge, horizon=7) == pytest.approx(7)
    with pytest.raises(AireError, match="1 or more"):
        gramians.energy(edge, horizon=0)


def test_a_batch_is_its_members_and_layers_may_be_empty():
    batch = random_system(8, batch=(3,), directions=2)
    np.testing.assert_allclose(gramians.energy(batch), [gramians.energy(batch.member(i)) for i in range(3)])
    empty = batch.member(0).take(np.array([], int))
    assert gramians.energy(empty) == 0
    assert gramians.energy(difference(batch.member(0), empty)) == pytest.approx(float(gramians.energy(batch.member(0))))
    both = concatenate([batch.member(0), batch.member(1)])
    np.testing.assert_allclose(both.kernel(4), batch.member(0).kernel(4) + batch.member(1).kernel(4))


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="do not make a system"):
        ModalSystem(np.zeros(2), np.zeros(3), np.zeros((2, 1)), np.zeros((1, 1, 2)))
