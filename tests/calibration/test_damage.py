"""Scores measured on data, against their definitions."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from small_models import inputs, mamba, s4d

import aireprune
from aireprune import AireError
from aireprune.calibration.damage import elimination_losses, measured_scores
from aireprune.calibration.inputs import read_inputs
from aireprune.calibration.subject import find_subject
from aireprune.pruning.source import open_module


def test_damage_is_the_error_after_the_refit() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((80, 7)), rng.standard_normal((3, 2))  # 3 states of 2 features, and 1 that always stays
    losses = elimination_losses(torch.from_numpy(x.T @ x), torch.from_numpy(w), ridge=0.0)
    first = int(np.argmin(losses))
    by_hand = []
    for j in range(3):
        stay = [c for c in range(7) if c not in (2 * j, 2 * j + 1)]
        lost = x[:, 2 * j : 2 * j + 2] @ w[j]
        by_hand.append(((lost - x[:, stay] @ np.linalg.lstsq(x[:, stay], lost, rcond=None)[0]) ** 2).sum())
    assert first == int(np.argmin(by_hand))
    assert losses[first] == pytest.approx(by_hand[first])


def test_damage_needs_data() -> None:
    with pytest.raises(AireError, match="calibrate="):
        aireprune.plan(mamba(), method="aire-calibrated", ratio=0.5)
    with pytest.raises(AireError, match="selective"):
        aireprune.prune(s4d(), method="aire-calibrated", ratio=0.5, calibrate=inputs())


def test_measured_energy_is_the_energy_of_the_states_own_output() -> None:
    """Against running the layer with all but one state's C rows silenced, and D off."""
    model = mamba()
    x = inputs()
    scores = measured_scores(find_subject(open_module(model), read_inputs(x)), read_inputs(x), "measured-energy")
    alone = copy.deepcopy(model)
    layer = alone.layers[0]
    n = layer.states
    energies = []
    with torch.no_grad():
        layer.D.zero_()
        kept = layer.x_proj.weight[layer.rank + n :].clone()
        u = model.norms[0](model.encode(torch.as_tensor(x)[:16]))
        for j in range(n):
            layer.x_proj.weight[layer.rank + n :] = 0
            layer.x_proj.weight[layer.rank + n + j] = kept[j]
            y = layer(u)
            if layer.out_proj.bias is not None:
                y = y - layer.out_proj.bias
            energies.append(float(y.square().sum()))
    ratio = scores[0] / np.array(energies)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-3)
