"""LRU as a family: scores from impulse responses of the recurrence, masked = removed = padded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from helpers import Arrays

from aireprune.errors import AireError
from aireprune.families.lru import LRU
from aireprune.method.criteria import Conditions, energy

FAMILY = LRU()


def layer_arrays(whole: bool, directions: int = 1, n: int = 5, h: int = 3, o: int = 2) -> Arrays:
    rng = np.random.default_rng(n)
    b = rng.standard_normal((n, h)) + 1j * rng.standard_normal((n, h))
    c = rng.standard_normal((o, directions * n)) + 1j * rng.standard_normal((o, directions * n))
    poles = {"nu_log": rng.uniform(-3, 0, n), "theta_log": rng.uniform(-2, 1, n), "gamma_log": rng.uniform(-2, 0, n)}
    gains = {"B": b, "C": c} if whole else {"B_re": b.real, "B_im": b.imag, "C_re": c.real, "C_im": c.imag}
    return Arrays({f"seq.{name}": values for name, values in {**poles, **gains}.items()})


def run(arrays: Mapping[str, np.ndarray], u: np.ndarray, turn: complex = 1) -> np.ndarray:
    """y (L, o) step by step, y = Re(C x) with no factor 2; `turn` rotates C."""
    get = {name.removeprefix("seq."): values for name, values in arrays.items()}
    lam = np.exp(-np.exp(get["nu_log"]) + 1j * np.exp(get["theta_log"]))
    b = get["B"] if "B" in get else get["B_re"] + 1j * get["B_im"]
    c = get["C"] if "C" in get else get["C_re"] + 1j * get["C_im"]
    bu = u @ (np.exp(get["gamma_log"])[:, None] * b).T

    def scan(v: np.ndarray) -> np.ndarray:
        x, out = np.zeros(len(lam), complex), []
        for v_t in v:
            x = lam * x + v_t
            out.append(x)
        return np.array(out)

    x = scan(bu)
    if c.shape[1] == 2 * len(lam):
        x = np.concatenate([x, scan(bu[::-1])[::-1]], axis=1)
    return (turn * (x @ c.T)).real


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("directions", [1, 2])
def test_energy_is_that_of_the_impulse_response(whole: bool, directions: int) -> None:
    """One state at a time, an impulse in the middle: Re^2 + Im^2 summed, mean over directions."""
    arrays = layer_arrays(whole, directions)
    (layer,) = FAMILY.find(arrays, {})
    found = []
    for state in range(layer.states):
        alone = {name: cut.mask(arrays[name], np.array([state])) for name, cut in FAMILY.cuts(layer).items()}
        total = 0.0
        for channel in range(3):
            u = np.zeros((801, 3))
            u[400, channel] = 1
            if directions == 1:
                total += sum((run(alone, u, turn) ** 2).sum() for turn in (1, 1j))
            else:  # at the impulse itself both directions answer: run them one at a time
                for side in (slice(0, 5), slice(5, 10)):
                    one = dict(alone)
                    for name in [name for name in alone if name.startswith("seq.C")]:
                        one[name] = np.zeros_like(alone[name])
                        one[name][:, side] = alone[name][:, side]
                    total += sum((run(one, u, turn) ** 2).sum() / 2 for turn in (1, 1j))
        found.append(total)
    np.testing.assert_allclose(energy(FAMILY.states(layer, arrays), Conditions()), found, rtol=1e-8)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("kept", [[1, 3], [4], []])
def test_masked_is_removed_is_padded(whole: bool, directions: int, kept: list[int]) -> None:
    arrays = layer_arrays(whole, directions)
    (layer,) = FAMILY.find(arrays, {})
    assert layer.states == 5
    indices, cuts = np.array(kept, int), FAMILY.cuts(layer)
    u = np.random.default_rng(0).standard_normal((50, 3))
    masked = run({name: cut.mask(arrays[name], indices) for name, cut in cuts.items()}, u)
    for size in (None, 4):
        smaller = Arrays({name: cut.remove(arrays[name], indices, size) for name, cut in cuts.items()})
        n = len(kept) if size is None else size
        assert smaller["seq.nu_log"].shape == (n,)
        np.testing.assert_allclose(run(smaller, u), masked, rtol=1e-10, atol=1e-12)
        (again,) = FAMILY.find(smaller, {})
        assert FAMILY.states(again, smaller).margin > 0


def test_slow_poles_keep_their_distance_from_one() -> None:
    arrays = layer_arrays(False)
    arrays["seq.nu_log"] = np.log(np.full(5, 1e-13))
    states = FAMILY.states(FAMILY.find(arrays, {})[0], arrays)
    np.testing.assert_allclose(energy(states, Conditions()), (states.b2 * states.mean_c2 / 2e-13)[:, 0], rtol=1e-9)


def test_a_missing_array_is_named() -> None:
    arrays = layer_arrays(False)
    del arrays["seq.C_im"]
    with pytest.raises(AireError, match=r"seq\.C_im is missing"):
        FAMILY.find(arrays, {})
