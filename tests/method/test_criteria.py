"""Scores of single states: closed forms against simulated sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aireprune.method.criteria import CRITERIA, Conditions
from aireprune.method.discretize import DISCRETIZE
from aireprune.method.states import LayerStates, from_modes

NO = Conditions()


def random_modes(rng, n=5, h=3, directions=1, slowest=0.98):
    log_radius = np.log(rng.uniform(0.3, slowest, n))
    angle = rng.uniform(-math.pi, math.pi, n)
    b = rng.standard_normal((n, h)) + 1j * rng.standard_normal((n, h))
    c = rng.standard_normal((directions, 4, n)) + 1j * rng.standard_normal((directions, 4, n))
    return log_radius, angle, b, c


def impulse_energy(lam, b, c, steps):
    """sum_k |c lam^k b|_F^2 of one mode, step by step; c (o,), b (h,)."""
    x, total = b.astype(complex), 0.0
    for _ in range(steps):
        total += np.sum(np.abs(np.outer(c, x)) ** 2)
        x = lam * x
    return total


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("horizon", [None, 1, 7, 60])
def test_energy_is_the_simulated_sum(directions, horizon):
    modes = random_modes(np.random.default_rng(directions), directions=directions)
    log_radius, angle, b, c = modes
    states = from_modes("layer", *modes)
    found = CRITERIA["energy"](states, Conditions(horizon=horizon))
    lam = np.exp(log_radius + 1j * angle)
    for i in range(len(lam)):
        simulated = np.mean([impulse_energy(lam[i], b[i], c[d, :, i], horizon or 3000) for d in range(directions)])
        assert found[i] == pytest.approx(simulated, rel=1e-10)


@pytest.mark.parametrize("directions", [1, 2])
def test_pair_energy_is_that_of_the_real_response(directions):
    modes = random_modes(np.random.default_rng(directions), directions=directions)
    log_radius, angle, b, c = modes
    found = CRITERIA["pair-energy"](from_modes("layer", *modes), NO)
    powers = np.exp((log_radius + 1j * angle)[:, None] * np.arange(3000))
    for i in range(len(angle)):
        real = np.einsum("do,t,h->doth", c[:, :, i], powers[i], b[i]).real
        assert found[i] == pytest.approx(2 * (real**2).sum() / directions, rel=1e-10)


def test_peak_is_the_largest_frequency_response():
    log_radius, angle, b, c = random_modes(np.random.default_rng(3))
    found = CRITERIA["peak"](from_modes("layer", log_radius, angle, b, c), NO)
    for i in range(len(angle)):
        omega = np.r_[np.linspace(-math.pi, math.pi, 20001), angle[i]]
        gain = 1 / np.abs(1 - np.exp(log_radius[i] + 1j * angle[i] - 1j * omega))
        norm = np.linalg.norm(np.outer(c[0, :, i], b[i]), 2)
        assert found[i] == pytest.approx((gain.max() * norm) ** 2, rel=1e-9)


def test_magnitude_and_published_forms():
    log_radius, angle, b, c = random_modes(np.random.default_rng(4), directions=2)
    states, r = from_modes("layer", log_radius, angle, b, c), np.exp(log_radius)
    b2, norms = (np.abs(b) ** 2).sum(1), np.linalg.norm(c, axis=1)
    mean_c2 = (norms**2).mean(0)
    slip = (norms[0] + norms[1]) / 4
    np.testing.assert_allclose(CRITERIA["magnitude"](states, NO), r**2 * b2 * mean_c2)
    np.testing.assert_allclose(CRITERIA["energy-published"](states, NO), slip * b2 / (1 - r**2 + 1e-8))
    np.testing.assert_allclose(CRITERIA["peak-published"](states, NO), slip * b2 / ((1 - r) ** 2 + 1e-8))


def test_a_state_with_several_modes_scores_their_sum():
    log_radius, angle, b, c = random_modes(np.random.default_rng(5), n=6)
    single = from_modes("layer", log_radius, angle, b, c)
    joined = LayerStates(
        "layer",
        log_radius.reshape(2, 3),
        angle.reshape(2, 3),
        single.b2.reshape(2, 3),
        single.c2.reshape(1, 2, 3),
    )
    for name in ("energy", "peak", "magnitude"):
        np.testing.assert_allclose(CRITERIA[name](joined, NO), CRITERIA[name](single, NO).reshape(2, 3).sum(1))


def test_random_depends_on_seed_and_layer_only():
    states = from_modes("layer", *random_modes(np.random.default_rng(6)))
    first = CRITERIA["random"](states, Conditions(seed=1, layer=2))
    np.testing.assert_array_equal(first, CRITERIA["random"](states, Conditions(seed=1, layer=2)))
    assert not np.array_equal(first, CRITERIA["random"](states, Conditions(seed=2, layer=2)))
    assert not np.array_equal(first, CRITERIA["random"](states, Conditions(seed=1, layer=3)))


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("method", ["zoh", "bilinear"])
def test_no_cancellation_close_to_the_unit_circle(gap, method):
    """|lam| = 1 - gap from a continuous pole: 1 - |lam|^2 keeps all its digits, at any frequency."""
    # bilinear: |lam|^2 = 1 + 4 Re(a)/|1 - a|^2 with Im(a) = 1; Re(a) = -gap to first order, the rest is exact below
    pole = np.array([math.log1p(-gap) + 2.0j]) if method == "zoh" else 2 * np.array([-gap + 1.0j])
    log_radius, angle, _ = DISCRETIZE[method](pole, np.array([1.0]))
    found = CRITERIA["energy"](
        LayerStates("l", log_radius[:, None], angle[:, None], np.ones((1, 1)), np.ones((1, 1, 1))), NO
    )
    if method == "zoh":
        exact = 2 * gap - gap**2
    else:
        a = pole / 2
        exact = float(-4 * a.real[0] / ((1 - a.real[0]) ** 2 + a.imag[0] ** 2))
        assert exact == pytest.approx(2 * gap, rel=1e-2)
    assert found[0] == pytest.approx(1 / exact, rel=1e-9)


@pytest.mark.parametrize("method", ["zoh", "bilinear"])
def test_discretisation_is_the_textbook_one(method):
    rng = np.random.default_rng(8)
    pole = -rng.uniform(0.01, 3, 7) + 1j * rng.uniform(-5, 5, 7)
    step = rng.uniform(0.001, 0.5, 7)
    log_radius, angle, factor = DISCRETIZE[method](pole, step)
    lam = np.exp(log_radius + 1j * angle)
    if method == "zoh":
        np.testing.assert_allclose(lam, np.exp(pole * step), rtol=1e-12)
        np.testing.assert_allclose(factor, (lam - 1) / pole, rtol=1e-9)
    else:
        np.testing.assert_allclose(lam, (1 + step * pole / 2) / (1 - step * pole / 2), rtol=1e-12)
        np.testing.assert_allclose(factor, step / (1 - step * pole / 2), rtol=1e-12)


def test_zoh_at_a_zero_pole_and_across_the_series():
    step = np.full(4, 0.25)
    poles = np.array([0.0, 1e-9, 0.003999j, 0.004001j])  # |z| around the switch at 1e-3
    _, _, factor = DISCRETIZE["zoh"](poles, step)
    np.testing.assert_allclose(factor[:2], 0.25, rtol=1e-9)
    exact = [0.25 * (1 + z / 2 + z**2 / 6 + z**3 / 24 + z**4 / 120) for z in poles[2:] * 0.25]
    np.testing.assert_allclose(factor[2:], exact, rtol=1e-13)
