"""The projection of a group's states: exact for any R and S, optimal for the measured moments."""

from __future__ import annotations

import numpy as np
import pytest

from aireprune.method.projection import project, projection_scores


def moments(groups: int = 2, n: int = 6, rank: int | None = None, seed: int = 0) -> np.ndarray:
    """M and P of every group, of `rank` directions each."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((2, groups, n, rank or n)) * rng.uniform(0.1, 3, (2, groups, n, 1))
    return np.asarray(factors @ np.swapaxes(factors, -1, -2))


def loss(m: np.ndarray, p: np.ndarray, r: np.ndarray, s: np.ndarray) -> float:
    """tr(M (I - S R') P (I - S R')') for R and S (N, N')."""
    rest = np.eye(len(m)) - s @ r.T
    return float(np.trace(m @ rest @ p @ rest.T))


@pytest.mark.parametrize("size", [1, 3, 6])
def test_the_loss_is_the_sum_of_the_squares_left_out(size: int) -> None:
    found, given = project(moments(), size), moments()
    for group, squares in enumerate(projection_scores(given)):
        actual = loss(given[0, group], given[1, group], found.b[group].T, found.c[group].T)
        assert actual == pytest.approx(squares[size:].sum(), rel=1e-6, abs=1e-9 * squares.sum())


def test_no_other_matrices_lose_less() -> None:
    given, size = moments(groups=1), 3
    m, p = given[:, 0]
    best = loss(m, p, project(given, size).b[0].T, project(given, size).c[0].T)
    rng = np.random.default_rng(1)
    for scale in (1e-3, 1e-2, 1e-1):
        r, s = (
            x[0].T + scale * rng.standard_normal((6, size)) for x in (project(given, size).b, project(given, size).c)
        )
        assert loss(m, p, r, s) > best


def test_new_gates_and_states_are_balanced() -> None:
    given = moments()
    found, roots = project(given, 4), np.sqrt(projection_scores(given))
    for group in range(2):
        b, c = found.b[group], found.c[group]
        np.testing.assert_allclose(c @ given[0, group] @ c.T, np.diag(roots[group, :4]), atol=1e-9 * roots.max())
        np.testing.assert_allclose(b @ given[1, group] @ b.T, np.diag(roots[group, :4]), atol=1e-9 * roots.max())
        np.testing.assert_allclose(b @ c.T, np.eye(4), atol=1e-9)


def test_states_that_say_nothing_become_zero() -> None:
    found = project(moments(rank=2), 4)
    assert np.isfinite(found.b).all()
    assert (found.b[:, 2:] == 0).all()
    assert (found.c[:, 2:] == 0).all()
    assert (found.b[:, :2] != 0).any()
