"""Taking out states one by one: the updates give the losses that solving every step anew gives."""

from __future__ import annotations

import numpy as np

from aireprune.method.elimination import RIDGE, elimination_losses


def moments(n: int = 7, groups: int = 2, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((2, groups, n, n)) * rng.uniform(0.1, 3, (2, groups, n, 1))
    return np.asarray(factors @ np.swapaxes(factors, -1, -2))


def plain_losses(m: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The same by its definition."""
    n, kept, losses = len(m), list(range(len(m))), np.zeros(len(m))
    p = p + RIDGE * np.diag(np.diagonal(p))

    def loss(stay: list[int]) -> float:
        given = p[:, stay] @ np.linalg.solve(p[np.ix_(stay, stay)], p[stay]) if stay else 0
        return float(np.trace(m @ (p - given)))

    for _ in range(n):
        found = {j: loss([k for k in kept if k != j]) for j in kept}
        least = min(found, key=lambda j: found[j])
        losses[least] = found[least]
        kept.remove(least)
    return losses


def test_updates_are_the_definition() -> None:
    given = moments()
    expected = np.stack([plain_losses(m, p) for m, p in zip(*given, strict=True)])
    np.testing.assert_allclose(elimination_losses(given), expected, rtol=1e-6)


def test_a_state_that_another_can_stand_in_for_goes_at_no_loss() -> None:
    m, p = np.eye(4), np.diag([1.0, 2.0, 3.0, 4.0])
    p[:, 3] = p[3, :] = 2 * p[1, :]
    p[3, 3] = 4 * p[1, 1]  # state 3 is twice state 1
    losses = elimination_losses(np.stack([m, p])[:, None])[0]
    assert losses[[1, 3]].min() < 1e-4
    assert losses[0] < losses[2]


def test_states_that_are_always_zero_go_first() -> None:
    given = moments(groups=1)
    given[1, 0, 2] = given[1, 0, :, 2] = 0
    losses = elimination_losses(given)[0]
    assert losses[2] == 0
    assert (np.delete(losses, 2) > 0).all()
