"""Refit is optimal, balancing keeps its promise, and what comes back is a stored layer again."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modal_systems import CONVENTIONS, random_system, real_matrices, simulated_energy, systems

from aireprune.errors import AireError
from aireprune.method.discretize import DISCRETIZE
from aireprune.method.gramians import controllability, distance_energy, energy, error_energy, state_energies
from aireprune.method.hinf import hinf_norm
from aireprune.method.reductions import balanced, hankel_scores, hankel_values, refit, truncate
from aireprune.method.reductions.diagonal import Realization, diagonalize
from aireprune.method.reductions.poles import to_continuous
from aireprune.method.reductions.refit import readout_for
from aireprune.method.system import ModalSystem, concatenate


@pytest.mark.parametrize(("conj", "directions"), CONVENTIONS)
@pytest.mark.parametrize("horizon", [None, 12])
def test_truncation_and_refit_report_their_exact_error(conj, directions, horizon):
    system = random_system(1, conj=conj, directions=directions)
    for reduce in (truncate, refit):
        found = reduce(system, np.array([0, 3, 4]), horizon=horizon)
        length = horizon or 2000
        lost = simulated_energy(system.kernel(length) - found.system.kernel(length))
        assert found.error_energy == pytest.approx(lost, rel=1e-8)
        np.testing.assert_allclose(found.error.kernel(20), system.kernel(20) - found.system.kernel(20), atol=1e-9)
        assert found.order == 3


@pytest.mark.parametrize(("conj", "directions"), CONVENTIONS)
def test_refit_is_the_minimum(conj, directions):
    system = random_system(2, conj=conj, directions=directions)
    kept = np.array([0, 2, 5])
    found = refit(system, kept)
    best = float(found.error_energy)
    assert best < float(truncate(system, kept).error_energy)
    rng = np.random.default_rng(0)
    for _ in range(5):
        change = np.zeros_like(system.c)
        change[..., kept] = rng.normal(size=(directions, 3, 3)) + 1j * rng.normal(size=(directions, 3, 3))
        c = system.c - found.error.c
        forth, back = (float(error_energy(system, c + t * change)) for t in (1e-3, -1e-3))
        assert (forth - back) / 2e-3 == pytest.approx(0, abs=1e-6 * best)  # the gradient vanishes
        assert min(forth, back) > best


@pytest.mark.parametrize("conj", [True, False])
def test_refit_is_the_formula_of_the_method(conj):
    system = random_system(3, conj=conj)
    kept = np.array([1, 2, 4])
    full = system.full()
    both = np.concatenate([kept, kept + system.modes])
    lam = np.exp(full.log_radius + 1j * full.angle)
    p = (full.b @ full.b.conj().T) / (1 - np.outer(lam, lam.conj()))
    c = full.c[0] @ p[:, both] @ np.linalg.inv(p[np.ix_(both, both)])
    np.testing.assert_allclose(refit(system, kept).system.full().c[0], c, rtol=1e-7)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(system=systems(), data=st.data())
def test_refit_is_never_worse_than_truncation(system, data):
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=system.modes, max_size=system.modes)))
    truncated, refitted = truncate(system, kept), refit(system, kept)
    assert refitted.error_energy <= truncated.error_energy * (1 + 1e-9)
    assert np.isfinite(refitted.system.c).all()


def test_refit_under_a_measured_covariance():
    """The least-squares readout of simulated states, as calibration would find it."""
    system, kept = random_system(4, modes=4), np.array([0, 2])
    rng = np.random.default_rng(0)
    u = np.cumsum(rng.normal(size=(400, 2)), axis=0) * 0.1
    x, states = np.zeros(4, complex), []
    for step in u:
        x = system.lam * x + system.b @ step
        states.append(np.concatenate([x.real, x.imag]))
    states = np.array(states)
    found = refit(system, kept, covariance=states.T @ states / len(states), rcond=1e-14)
    features = states[:, np.concatenate([kept, kept + 4])]
    expected = np.linalg.lstsq(features, states @ system.real_c()[0].T, rcond=None)[0]
    np.testing.assert_allclose(found.system.real_c()[0], expected.T, rtol=1e-6, atol=1e-8)


def test_readout_for_other_poles():
    full = random_system(5, directions=2)
    given_poles = random_system(6, modes=3, directions=2, conj=False)
    best = readout_for(full, given_poles)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-1):
        noise = size * (rng.normal(size=best.c.shape) + 1j * rng.normal(size=best.c.shape))
        assert distance_energy(full, best.with_c(best.c + noise)) > distance_energy(full, best)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(system=systems(max_modes=10), data=st.data())
def test_balanced_keeps_its_promise(system, data):
    modes = data.draw(st.integers(0, system.modes))
    found = balanced(system, modes)
    assert found.order <= modes
    assert found.system.stable
    assert found.system.conj == system.conj
    assert hinf_norm(found.error, stacked=True)[0] <= float(found.tail) * (1 + 1e-6) + 1e-12
    scale = float(energy(system)) + float(found.error_energy)
    assert distance_energy(system, found.system) == pytest.approx(float(found.error_energy), rel=1e-6, abs=1e-9 * scale)


def test_balanced_agrees_with_pymor():
    models = pytest.importorskip("pymor.models.iosys")
    reductors = pytest.importorskip("pymor.reductors.bt")
    logger = pytest.importorskip("pymor.core.logger")
    logger.set_log_levels({"pymor": "ERROR"})
    system = random_system(7, modes=5, damping=2)
    a, b, c = real_matrices(system)
    model = models.LTIModel.from_matrices(a, b, c[0], sampling_time=1)
    np.testing.assert_allclose(hankel_values(system), model.hsv(), rtol=1e-6)
    reductor = reductors.BTReductor(model)
    found = balanced(system, 3)
    reduced = reductor.reduce(6)
    assert found.order == 3
    poles = np.concatenate([found.system.lam, found.system.lam.conj()])
    np.testing.assert_allclose(np.sort_complex(poles.round(9)), np.sort_complex(reduced.poles().round(9)), atol=1e-7)
    assert found.tail == pytest.approx(reductor.error_bounds()[5], rel=1e-5)
    assert np.sqrt(found.error_energy) == pytest.approx((model - reduced).h2_norm(), rel=1e-5)


def test_real_poles_are_stored_with_half_their_readout():
    """Diagonal systems with real poles of either sign, as real matrices and back."""
    for conj in (True, False):
        a = np.diag([0.5, -0.7, 0.0])[None]
        a = np.block([[a[0], np.zeros((3, 2))], [np.zeros((2, 3)), 0.9 * np.array([[0.6, -0.8], [0.8, 0.6]])]])[None]
        rng = np.random.default_rng(0)
        real = Realization(a, rng.normal(size=(1, 5, 2)), rng.normal(size=(1, 1, 3, 5)))
        modal, stored, condition = diagonalize(real, conj)
        assert (stored, modal.modes) == (4, 4)
        assert condition[0] < 2
        power = np.eye(5)
        for k in range(6):
            np.testing.assert_allclose(modal.kernel(6)[0, 0, k], real.c[0, 0] @ power @ real.b[0], atol=1e-12)
            power = a[0] @ power


def test_full_spectra_are_the_same_systems_as_halves():
    half = random_system(8, modes=5)
    spectrum = ModalSystem(
        np.concatenate([half.log_radius, half.log_radius]),
        np.concatenate([half.angle, -half.angle]),
        np.concatenate([half.b, half.b.conj()]),
        np.concatenate([half.c, half.c.conj()], -1),
        conj=False,
    )
    np.testing.assert_allclose(spectrum.kernel(9), half.kernel(9))
    np.testing.assert_allclose(hankel_values(spectrum)[:10], hankel_values(half), rtol=1e-6)
    found, expected = balanced(spectrum, 3), balanced(half, 3)
    np.testing.assert_allclose(found.system.kernel(9), expected.system.kernel(9), atol=1e-6)
    # a pair needs only one stored mode, so half the modes of a closed spectrum are enough for all of it
    assert balanced(spectrum, 5).relative_error < 1e-6


def test_scores_are_pairs_of_squared_hankel_values():
    system = random_system(9, batch=(4,), inputs=1, outputs=1)
    values = hankel_values(system)
    np.testing.assert_allclose(hankel_scores(system), (values**2).reshape(4, 6, 2).sum(-1), rtol=1e-6, atol=1e-12)
    assert (np.diff(hankel_scores(system), axis=-1) <= 0).all()


def test_a_batch_is_reduced_like_its_members():
    system = random_system(10, modes=8, inputs=1, outputs=1, batch=(2, 3), damping=2)
    modes = np.array([[0, 1, 2], [3, 7, 8]])
    found = balanced(system, modes)
    kernels = found.system.kernel(12)
    for place in np.ndindex(2, 3):
        member = system.member(place[0]).member(place[1])
        alone = balanced(member, int(modes[place]))
        assert found.order[place] == alone.order <= modes[place]
        np.testing.assert_allclose(kernels[place], alone.system.kernel(12), atol=1e-6)
        assert found.error_energy[place] == pytest.approx(float(alone.error_energy), rel=1e-6, abs=1e-9)
    assert found.error_energy[1, 2] == 0
    mask = np.arange(8) < modes[..., None]
    refitted = refit(system, mask)
    for place in np.ndindex(2, 3):
        alone = refit(system.member(place[0]).member(place[1]), mask[place])
        assert refitted.error_energy[place] == pytest.approx(float(alone.error_energy), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("directions", [1, 2])
def test_measured_and_horizon_limited_balancing(directions):
    system = random_system(11, modes=8, directions=directions, damping=3)
    white = balanced(system, 4, covariance=controllability(system))
    np.testing.assert_allclose(white.system.kernel(9), balanced(system, 4).system.kernel(9), atol=1e-8)
    assert white.tail is None
    for horizon in (3, 20):
        found = balanced(system, 4, horizon=horizon)
        assert found.system.stable
        length = found.error.kernel(horizon)
        assert found.error_energy == pytest.approx(simulated_energy(length), rel=1e-6)
        assert found.error_energy <= energy(system, horizon)


def test_measured_balancing_is_stable_whatever_was_measured():
    """The projection is orthogonal in the norm of Q, in which the layer is a contraction."""
    for seed in range(10):
        system = random_system(seed, modes=6, inputs=1, outputs=1, damping=3)
        factor = np.random.default_rng(seed).normal(size=(12, 12)) * 10.0 ** np.linspace(0, -6, 12)
        found = balanced(system, 3, covariance=factor @ factor.T)
        assert found.system.stable
        assert not any("unstable" in note for note in found.notes)


def test_unstable_poles_of_a_short_horizon_are_reflected_and_reported():
    notes = set()
    for seed in range(30):
        system = random_system(seed, modes=6, inputs=1, outputs=1, damping=3)
        found = balanced(system, 3, horizon=8)
        assert found.system.stable
        assert found.error_energy <= energy(system, 8)
        notes |= {note.split(" (")[0] for note in found.notes}
    assert "unstable poles reflected and the readout refitted" in notes


HARD = {
    "nearly equal poles": (np.full(12, -0.1) - 1e-9 * np.arange(12), 0.3 + 1e-9 * np.arange(12)),
    "equal poles": (np.full(12, -0.1), np.full(12, 0.3)),
    "nearly undamped": (-(10.0 ** -np.arange(1, 13)), np.linspace(0, 3, 12)),
    "equal real poles": (np.full(12, -0.2), np.zeros(12)),
    "negative real poles": (-np.linspace(0.1, 2, 12), np.full(12, np.pi)),
    "nearly real poles": (np.full(12, -0.01), 1e-7 * np.arange(12)),
    "wide range of poles at one angle": (-np.logspace(-8, 1, 12), np.ones(12)),
}


@pytest.mark.parametrize("conj", [True, False])
@pytest.mark.parametrize("ports", [1, 3])
@pytest.mark.parametrize("name", HARD)
def test_ill_conditioned_layers(name, ports, conj):
    log_radius, angle = HARD[name]
    like = random_system(0, modes=12, inputs=ports, outputs=ports, conj=conj)
    system = ModalSystem(log_radius, angle, like.b, like.c, conj)
    for modes in (1, 4, 11):
        found = balanced(system, modes)
        assert found.order <= modes
        assert found.system.stable
        assert found.relative_error <= 1
        if np.isfinite(found.tail):
            assert hinf_norm(found.error)[0] <= float(found.tail) * (1 + 1e-6)
        kept = np.argsort(-state_energies(system))[:modes]
        assert refit(system, kept).error_energy <= truncate(system, kept).error_energy


def test_silent_modes_and_empty_layers():
    system = random_system(12)
    silent = concatenate([system, system.with_c(0 * system.c)])
    found = balanced(silent, 6)
    assert found.relative_error < 1e-6
    nothing = balanced(system.with_c(0 * system.c), 2)
    assert nothing.relative_error == 0
    assert nothing.order == 0
    empty = system.take(np.array([], int))
    for reduction in (balanced(empty, 0), truncate(empty, np.array([], int)), refit(empty, np.array([], int))):
        assert reduction.order == 0
        assert reduction.relative_error == 0
    assert truncate(system, np.array([], int)).relative_error == 1
    assert refit(system, np.array([], int)).relative_error == 1
    with pytest.raises(AireError, match="distinct indices"):
        truncate(system, np.array([1, 1]))
    with pytest.raises(ValueError, match="negative"):
        balanced(system, -1)


@pytest.mark.parametrize("discretization", ["zoh", "bilinear"])
@pytest.mark.parametrize("clip", [None, -1e-4])
def test_poles_go_back_to_the_checkpoint(discretization, clip):
    log_radius = -np.array([1e-9, 1e-6, 1e-3, 0.1, 3.0, 5.0, 0.1, 0.2])
    angle = np.array([0.0, 1.0, 7.0, -3.0, 0.5, 0.0, np.pi, -np.pi])  # 7 is beyond the principal branch
    found = to_continuous(log_radius, angle, 1e-2, discretization, clip)
    back_radius, back_angle, factor = DISCRETIZE[discretization](found.pole, found.step)
    np.testing.assert_allclose(back_radius, log_radius, rtol=1e-9)
    np.testing.assert_allclose(np.exp(1j * back_angle), np.exp(1j * angle), atol=1e-9)
    np.testing.assert_allclose(factor, found.factor)
    assert (found.pole.real < 0).all()
    assert not found.clipped.any()
    if clip is not None:
        assert (found.pole.real <= clip).all()
        kept = to_continuous(log_radius, angle, 1e-2, discretization, clip, free_step=False)
        assert kept.clipped[0]
        assert not kept.clipped[3:6].any()
        np.testing.assert_array_equal(kept.step, 1e-2)


def test_unmappable_poles_are_refused():
    with pytest.raises(AireError, match="unit circle"):
        to_continuous(np.array([0.0]), np.array([0.0]), 1.0)
    with pytest.raises(AireError, match="not one of"):
        to_continuous(np.array([-1.0]), np.array([0.0]), 1.0, "euler")


def test_balanced_layer_survives_the_way_through_a_checkpoint():
    """Discrete modes -> (pole, step, b) in single precision -> the same kernel."""
    system = random_system(13, modes=10, damping=3)
    found = balanced(system, 6).system
    modes = to_continuous(found.log_radius, found.angle, 0.01, clip=-1e-4)
    pole = modes.pole.astype(np.complex64).astype(complex)
    step = np.exp(np.log(modes.step).astype(np.float32).astype(float))
    b = (found.b / modes.factor[:, None]).astype(np.complex64)
    log_radius, angle, factor = DISCRETIZE["zoh"](pole, step)
    back = ModalSystem(log_radius, angle, factor[:, None] * b, found.c.astype(np.complex64))
    assert distance_energy(found, back) < 1e-6 * energy(found)


def test_speed():
    """512 stored modes, both directions; and 1,000 SISO channels. Generous limits: CPU seconds on a busy machine."""
    big = random_system(14, modes=512, inputs=64, outputs=64, directions=2, damping=3)
    many = random_system(15, modes=32, inputs=1, outputs=1, batch=(256,), damping=3)
    for reduce, limit in ((lambda: balanced(big, 128), 8.0), (lambda: balanced(many, 8), 8.0)):
        start = time.process_time()
        reduce()
        assert time.process_time() - start < limit
