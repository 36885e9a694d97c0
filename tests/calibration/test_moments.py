"""Least squares from moments, against lstsq."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aireprune.calibration.moments import Moments, MomentsWithSkip, best_change


def test_the_solution_is_that_of_lstsq() -> None:
    rng = np.random.default_rng(1)
    x, r = rng.standard_normal((50, 4)), rng.standard_normal((50, 3))
    moments = Moments.zeros(4, 3)
    for rows in (slice(0, 20), slice(20, 50)):
        moments.add(torch.from_numpy(x[rows]), torch.from_numpy(r[rows]))
    expected = np.linalg.lstsq(x, r, rcond=None)[0]
    np.testing.assert_allclose(moments.solve(0.0).numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(float(moments.loss(moments.solve(0.0))), ((r - x @ expected) ** 2).sum())
    scale = np.diag(np.linalg.norm(x, axis=0)) * np.sqrt(0.1)
    ridge = np.linalg.lstsq(np.r_[x, scale], np.r_[r, np.zeros((4, 3))], rcond=None)[0]
    np.testing.assert_allclose(moments.solve(0.1).numpy(), ridge, rtol=1e-9)


def test_a_skip_of_its_own_for_every_output() -> None:
    rng = np.random.default_rng(2)
    x, v, r = rng.standard_normal((60, 4)), rng.standard_normal((60, 3)), rng.standard_normal((60, 3))
    moments = MomentsWithSkip.empty(4, 3)
    moments.add_with_skip(*(torch.from_numpy(part) for part in (x, v, r)))
    change = moments.solve(0.0).numpy()
    loss = 0.0
    for k in range(3):
        own = np.c_[x, v[:, k]]
        expected = np.linalg.lstsq(own, r[:, k], rcond=None)[0]
        np.testing.assert_allclose(change[:, k], expected, rtol=1e-9)
        loss += ((r[:, k] - own @ expected) ** 2).sum()
    np.testing.assert_allclose(float(moments.loss(torch.from_numpy(change))), loss)


def test_a_change_that_does_not_help_held_out_data_is_not_made() -> None:
    fit, held = Moments.zeros(1, 1), Moments.zeros(1, 1)
    one = torch.ones(5, 1)
    fit.add(one, one)
    held.add(one, -one)
    assert float(best_change(fit, held)) == 0.0
    assert float(best_change(fit, None)) == pytest.approx(1.0, rel=0.01)
