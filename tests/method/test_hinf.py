"""The search for the norm finds what slycot's ab13dd computes."""

from __future__ import annotations

import numpy as np
import pytest
from modal_systems import CONVENTIONS, random_system, two_sided

from aireprune.method.hinf import gain, hinf_norm, hinf_norms
from aireprune.method.system import ModalSystem


def slycot_norm(system):
    slycot = pytest.importorskip("slycot")
    a, b, c, d = two_sided(system)
    n = len(a)
    return slycot.ab13dd("D", "I", "N", "D", n, b.shape[1], c.shape[0], a, np.eye(n), b, c, d, 1e-10)


@pytest.mark.parametrize(("conj", "directions"), CONVENTIONS)
@pytest.mark.parametrize(("damping", "spread"), [(0.5, np.pi), (3.0, np.pi), (6.0, np.pi), (6.0, 0.01), (2.0, 0.0)])
def test_agrees_with_slycot(conj, directions, damping, spread):
    for seed in range(4):
        shape = {"modes": 3 + 2 * seed, "inputs": 1 + seed, "outputs": 4 - seed}
        system = random_system(seed, conj=conj, directions=directions, damping=damping, spread=spread, **shape)
        assert hinf_norm(system)[0] == pytest.approx(slycot_norm(system)[0], rel=1e-7)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("damping", [0.3, 5.0])
def test_many_inputs_and_outputs(directions, damping):
    for seed in range(3):
        system = random_system(seed, modes=15, inputs=20, outputs=24, directions=directions, damping=damping)
        assert hinf_norm(system)[0] == pytest.approx(slycot_norm(system)[0], rel=1e-6)


def test_peak_between_grid_points():
    one = np.ones((1, 1))
    system = ModalSystem(np.array([np.log1p(-1e-6)]), np.array([1.2345678]), one, one[None])
    norm, frequency = hinf_norm(system)
    assert frequency == pytest.approx(1.2345678, abs=1e-9)
    assert norm == pytest.approx(1e6, rel=1e-5)


def test_frequency_response_is_the_transform_of_the_kernel():
    system = random_system(3, directions=2, conj=False)
    omega, lag = np.array([0.0, 0.4, 2.5]), np.arange(2000)
    kernel = system.kernel(2000)
    forward = np.einsum("wk,koh->woh", np.exp(-1j * np.outer(omega, lag)), kernel[0])
    backward = np.einsum("wk,koh->woh", np.exp(1j * np.outer(omega, lag)), kernel[1])
    np.testing.assert_allclose(system.frequency_response(omega), forward + backward, atol=1e-9)
    causal = np.einsum("wk,koh->woh", np.exp(-1j * np.outer(omega, lag)), kernel[1])
    np.testing.assert_allclose(system.frequency_response(omega, stacked=True)[:, 3:], causal, atol=1e-9)


def test_value_is_reached_at_the_frequency():
    system = random_system(4, directions=2)
    norm, frequency = hinf_norm(system)
    response = system.frequency_response(np.array([frequency]))[0]
    assert np.linalg.norm(response, 2) == pytest.approx(norm, rel=1e-12)


def test_batches_and_empty_systems():
    batch = random_system(5, modes=4, inputs=1, outputs=1, batch=(7,))
    values, frequencies = hinf_norms(batch)
    assert values.shape == frequencies.shape == (7,)
    np.testing.assert_allclose(values, [hinf_norm(batch.member(i))[0] for i in range(7)])
    assert hinf_norm(batch)[0] == values.max()
    assert hinf_norm(batch.take(np.array([], int))) == (0.0, 0.0)


def test_gain_over_frequencies():
    omega = np.linspace(0.01, 3, 7)
    small = random_system(6, directions=2)
    expected = [np.linalg.norm(g, 2) for g in small.frequency_response(omega)]
    np.testing.assert_allclose(gain(small, omega), expected)
    large = random_system(7, modes=20, inputs=16, outputs=16)
    truth = np.array([np.linalg.norm(g, 2) for g in large.frequency_response(omega)])
    estimate = gain(large, omega)
    assert (estimate <= truth * (1 + 1e-9)).all()
    assert (estimate >= 0.99 * truth).all()
    batch = random_system(5, modes=4, inputs=1, outputs=1, batch=(2, 3))
    np.testing.assert_allclose(gain(batch, omega), np.abs(batch.frequency_response(omega))[..., 0, 0].max((0, 1)))
    assert not gain(small.take(np.array([], int)), omega).any()
