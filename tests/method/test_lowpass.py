"""Output power under slowly varying inputs: against white noise, the frequency response and the time domain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from modal_systems import CONVENTIONS, random_system, systems

from aireprune.method import lowpass
from aireprune.method.gramians import energy
from aireprune.method.lowpass import slow_error, slow_power
from aireprune.method.reductions import balanced, refit, truncate
from aireprune.method.system import ModalSystem


@given(system=systems())
def test_without_correlation_it_is_the_energy(system: ModalSystem) -> None:
    np.testing.assert_allclose(slow_power(system, 0.0), energy(system), rtol=1e-6)


@pytest.mark.parametrize(("conj", "directions"), CONVENTIONS)
@pytest.mark.parametrize("rho", [0.3, 0.9, 0.98])
def test_it_is_the_power_spectrum_behind_the_layer(conj: bool, directions: int, rho: float) -> None:
    system = random_system(3, conj=conj, directions=directions, damping=1.5)
    omega = 2 * np.pi * np.arange(20000) / 20000
    spectrum = (1 - rho**2) / np.abs(1 - rho * np.exp(-1j * omega)) ** 2
    response = (np.abs(system.frequency_response(omega)) ** 2).sum((-2, -1))
    assert float(slow_power(system, rho)) == pytest.approx(float((spectrum * response).mean()), rel=1e-6)


def written_out(system: ModalSystem, rho: float, length: int) -> float:
    """The double sum over lags."""
    kernel, lags = system.kernel(length), np.arange(length)
    if system.directions == 2:
        lags = np.concatenate([-lags[::-1], lags])
        kernel = np.concatenate([kernel[1][::-1], kernel[0]])
    else:
        kernel = kernel[0]
    correlation = rho ** np.abs(lags[:, None] - lags[None, :])
    return float(np.einsum("koh,kl,loh->", kernel, correlation, kernel))


@pytest.mark.parametrize("directions", [1, 2])
def test_it_is_what_the_kernel_does_to_such_inputs(directions: int) -> None:
    system = random_system(1, modes=3, inputs=2, outputs=2, directions=directions, damping=1.0)
    assert float(slow_power(system, 0.9)) == pytest.approx(written_out(system, 0.9, 400), rel=1e-9)


@pytest.mark.parametrize(("conj", "directions"), CONVENTIONS)
@pytest.mark.parametrize("rho", [0.3, 0.9, 0.98])
@pytest.mark.parametrize("horizon", [1, 2, 40])
def test_within_a_horizon_both_sums_end(conj: bool, directions: int, rho: float, horizon: int) -> None:
    system = random_system(6, modes=4, inputs=2, outputs=3, conj=conj, directions=directions, damping=0.3)
    system = replace(system, log_radius=np.array([-1e-9, -0.3, np.log(rho), -30.0]))
    found = float(slow_power(system, rho, horizon))
    assert found == pytest.approx(written_out(system, rho, horizon), rel=1e-9)


@given(system=systems())
def test_without_correlation_it_is_the_energy_of_the_horizon(system: ModalSystem) -> None:
    np.testing.assert_allclose(slow_power(system, 0.0, 7), energy(system, 7), rtol=1e-6)


@pytest.mark.parametrize("directions", [1, 2])
def test_a_horizon_that_outlasts_every_state_changes_nothing(directions: int) -> None:
    system = random_system(7, directions=directions, damping=1.0)
    np.testing.assert_allclose(slow_power(system, horizon=100_000), slow_power(system), rtol=1e-9)


def test_a_state_that_outlives_the_horizon_counts_as_it_is_seen() -> None:
    """After a billion steps what is dropped is all there is; after ten next to nothing."""
    system = ModalSystem(np.array([-1e-12, -0.1]), np.zeros(2), np.array([[0.01], [1.0]]), np.ones((1, 1, 2)))
    done = truncate(system, np.array([False, True]))
    assert slow_error(done, 10**9) > 0.99
    assert slow_error(done, 10) < 0.02


def test_many_modes_are_taken_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    system = random_system(5, modes=7, directions=2, batch=(3,))
    whole = slow_power(system)
    monkeypatch.setattr(lowpass, "WORK", 3 * 7 * 2)
    np.testing.assert_allclose(slow_power(system), whole)


def test_channels_are_separate_layers() -> None:
    system = random_system(0, inputs=1, outputs=1, batch=(4,))
    parts = [float(slow_power(system.member(i))) for i in range(4)]
    np.testing.assert_allclose(slow_power(system), parts)


def test_nothing_removed_is_no_error_and_everything_is_all_of_it() -> None:
    system = random_system(2)
    keep = np.ones(system.modes, bool)
    assert slow_error(truncate(system, keep)) == 0.0
    assert slow_error(truncate(system, ~keep)) == pytest.approx(1.0)
    assert slow_error(truncate(system.with_c(0 * system.c), ~keep)) == 0.0


def test_what_slow_inputs_do_not_excite_does_not_count() -> None:
    """A fast alternating mode holds nearly all of the energy, and next to nothing of a slow input's response."""
    fast = ModalSystem(np.log([0.9, 0.9]), np.array([np.pi, 0.0]), np.array([[10.0], [1.0]]), np.ones((1, 1, 2)))
    done = truncate(fast, np.array([False, True]))
    assert done.relative_error > 0.98
    assert slow_error(done) < 0.6
    assert slow_error(balanced(fast, np.array(1))) > 0


@pytest.mark.parametrize("make", [truncate, refit])
@pytest.mark.parametrize("directions", [1, 2])
def test_the_error_is_relative_to_the_full_layer(make: Any, directions: int) -> None:
    system = random_system(4, directions=directions)
    done = make(system, np.arange(6) < 4, *[None] * (make is refit))
    expected = np.sqrt(slow_power(done.error) / slow_power(system))
    assert slow_error(done) == pytest.approx(float(expected))
