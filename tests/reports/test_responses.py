"""Responses and couplings are those of the layer, computed in another way."""

from __future__ import annotations

import numpy as np
import pytest
from modal_systems import random_system

from aireprune.method.gramians import energy
from aireprune.method.reductions import truncate
from aireprune.reports.responses import coupling, impulse_norms, responses

SHAPES = [{}, {"directions": 2}, {"conj": False}, {"inputs": 1, "outputs": 1, "batch": (5,)}]


@pytest.mark.parametrize("shape", SHAPES)
def test_norms_are_those_of_the_kernel(shape):
    system = random_system(0, **shape)
    steps = np.array([0, 1, 7, 30])
    kernel = np.moveaxis(system.kernel(31), -3, 0)[steps]
    np.testing.assert_allclose(impulse_norms(system, steps), np.sqrt((kernel.reshape(4, -1) ** 2).sum(1)), atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_what_removed_modes_hold_together_is_the_exact_error(shape):
    system = random_system(1, modes=9, **shape)
    held = coupling(system)
    kept = np.arange(9) % 3 > 0
    expected = truncate(system, kept)
    assert held[np.ix_(~kept, ~kept)].sum() == pytest.approx(float(expected.error_energy))
    assert held.sum() == pytest.approx(float(energy(system)))
    within = coupling(system, 12)
    assert within.sum() == pytest.approx(float(energy(system, 12)))


def test_full_reduced_and_error_belong_together():
    system = random_system(2, modes=8, directions=2)
    kept = np.arange(8) < 5
    reduction = truncate(system, kept)
    found = responses(system, reduction.system, reduction.error)
    full, reduced, error = found.impulse
    assert (full <= reduced + error + 1e-6).all()
    assert (found.gain[0] <= found.gain[1] + found.gain[2] + 1e-5).all()
    assert (np.diff(found.steps) > 0).all()
    assert (np.diff(found.omega) > 0).all()
    assert found.omega[-1] == pytest.approx(np.pi)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_layer_that_loses_all_its_states(shape):
    system = random_system(3, **shape)
    reduction = truncate(system, np.zeros(system.log_radius.shape, bool))
    found = responses(system, reduction.system, reduction.error)
    assert not found.impulse[1].any()
    assert not found.gain[1].any()
    np.testing.assert_array_equal(found.impulse[0], found.impulse[2])
