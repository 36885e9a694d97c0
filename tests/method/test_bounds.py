"""A certificate is only worth something if it is never below the true norm."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modal_systems import CONVENTIONS, random_system, systems

from aireprune.method.bounds import (
    StackLayer,
    aire_bound,
    audible,
    balanced_bound,
    certify,
    last_bound,
    residual_stack_bound,
)
from aireprune.method.hinf import hinf_norm
from aireprune.method.reductions import balanced, refit, truncate
from aireprune.method.system import ModalSystem

SLACK = 1 + 1e-9


@settings(max_examples=60, deadline=None, derandomize=True)
@given(system=systems(), data=st.data())
def test_every_bound_holds(system, data):
    keep = data.draw(st.integers(0, system.modes))
    kept = np.arange(system.modes)[:keep]
    for reduction in (truncate(system, kept), refit(system, kept), balanced(system, keep)):
        found = certify("layer", reduction)
        assert found.hinf <= found.last_bound * SLACK + 1e-9
        assert found.hinf <= found.aire_bound * SLACK + 1e-9
        assert found.last_bound <= found.aire_bound * SLACK + 1e-9
        if found.balanced_bound is not None:
            assert found.hinf <= found.balanced_bound * SLACK + 1e-9
        assert found.hinf <= found.bound * SLACK + 1e-9
        assert (found.modes, found.kept) == (system.modes, int(reduction.order))
        assert json.loads(json.dumps(found.to_dict()))["reduction"] == reduction.method


@pytest.mark.parametrize("conj", [True, False])
def test_bounds_are_reached_by_one_real_pole(conj):
    """Both halves of a real pole peak at the same frequency, and both directions too."""
    one = np.ones((1, 1))
    for directions in (1, 2):
        error = ModalSystem(np.array([-0.1]), np.array([0.0]), one, np.ones((directions, 1, 1)), conj)
        norm = hinf_norm(error)[0]
        assert last_bound(error) == pytest.approx(norm, rel=1e-9)
        assert aire_bound(error) == pytest.approx(norm, rel=1e-9)


def test_two_directions_may_need_twice_the_balanced_bound():
    """E1 = u v*, E2(e^{iw}) = u v^T at one frequency: stacked 1, added up 2. The factor cannot be smaller."""
    v = np.array([1, 1j]) / math.sqrt(2)
    angle, log_radius = np.array([1.0]), np.array([-1e-4])
    error = ModalSystem(log_radius, angle, v.conj()[None], np.ones((2, 1, 1)), conj=False)
    swapped = ModalSystem(log_radius, angle, v[None], np.array([0.0, 1.0]).reshape(2, 1, 1), conj=False)
    both = ModalSystem(
        np.concatenate([log_radius, log_radius]),
        np.concatenate([angle, angle]),
        np.concatenate([error.b, swapped.b]),
        np.concatenate([error.c * np.array([1.0, 0.0])[:, None, None], swapped.c], -1),
        conj=False,
    )
    assert hinf_norm(both)[0] == pytest.approx(2 * hinf_norm(both, stacked=True)[0], rel=1e-3)
    assert balanced_bound(both, 1.0) == 2.0
    assert balanced_bound(random_system(0, inputs=1, directions=2), 1.0) == pytest.approx(math.sqrt(2))
    assert balanced_bound(random_system(0, directions=1), 1.0) == 1.0


@pytest.mark.parametrize(("conj", "directions"), CONVENTIONS)
def test_energies_beside_the_exact_error(conj, directions):
    system = random_system(1, conj=conj, directions=directions)
    found = certify("layer", truncate(system, np.array([0, 2])), hinf=False)
    pruned = system.take(np.array([1, 3, 4, 5]))
    c2 = (np.abs(pruned.c) ** 2).sum(1).mean(0)
    expected = (c2 * (np.abs(pruned.b) ** 2).sum(1) / (1 - np.abs(pruned.lam) ** 2)).sum()
    assert found.pruned_energies == pytest.approx(expected)
    assert found.hinf is None
    assert found.relative_h2 == pytest.approx(math.sqrt(found.error_energy / found.layer_energy))


def test_a_batch_is_block_diagonal():
    batch = random_system(2, inputs=1, outputs=1, batch=(5,))
    kept = np.zeros((5, 6), bool)
    kept[:, :2] = True
    whole = certify("channels", truncate(batch, kept))
    single = [certify("one", truncate(batch.member(i), kept[i])) for i in range(5)]
    for name in ("hinf", "aire_bound", "last_bound"):
        assert getattr(whole, name) == pytest.approx(max(getattr(one, name) for one in single))
    assert whole.error_energy == pytest.approx(sum(one.error_energy for one in single))
    assert (whole.modes, whole.kept) == (30, 10)


def test_nothing_is_promised_for_an_unstable_error():
    one = np.ones((1, 1))
    error = ModalSystem(np.array([0.1]), np.array([0.0]), one, one[None])
    assert last_bound(error) == aire_bound(error) == math.inf
    assert audible(error.with_c(0 * error.c)).modes == 0
    assert last_bound(error.with_c(0 * error.c)) == 0


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31))
def test_stack_bound_holds_for_a_random_stack(seed):
    rng = np.random.default_rng(seed)
    depth, width = 3, 5
    full = rng.normal(size=(depth, width, width)) / 3
    reduced = full + rng.normal(size=full.shape) / 20
    scale = rng.uniform(0.2, 2, size=depth)
    z = same = rng.normal(size=width)
    norms, errors = [], [0.0]
    for layer in range(depth):  # phi = tanh, nu = scale
        norms.append(float(np.linalg.norm(scale[layer] * z)))
        z = z + np.tanh(full[layer] @ (scale[layer] * z))
        same = same + np.tanh(reduced[layer] @ (scale[layer] * same))
        errors.append(float(np.linalg.norm(z - same)))
    bounds = residual_stack_bound(
        [
            StackLayer(
                error=float(np.linalg.norm(a - b, 2)), gain=float(np.linalg.norm(b, 2)), input_norm=norm, inner=inner
            )
            for a, b, norm, inner in zip(full, reduced, norms, scale, strict=True)
        ]
    )
    assert len(bounds) == depth + 1
    assert all(error <= bound * SLACK for error, bound in zip(errors, bounds, strict=True))
