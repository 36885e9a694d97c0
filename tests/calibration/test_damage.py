"""Scores measured on data, against their definitions."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from small_models import distance, inputs, mamba, mamba2, s4d

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


@pytest.mark.parametrize("method", ["aire-calibrated", "damage-calibrated"])
def test_measured_methods_prune_mamba2(method: str) -> None:
    """In the layout that stock code loads, closer to the full model than by the data-free energy."""
    full, x = mamba2(), inputs(32)
    measured, plain = (
        aireprune.prune(full, method=name, ratio=0.75, reduce="truncate", layout="uniform", **given)
        for name, given in ((method, {"calibrate": x}), ("aire", {}))
    )
    assert measured.config.state_sizes == plain.config.state_sizes == (3, 3)
    assert distance(full, measured, inputs(16, seed=1)) < distance(full, plain, inputs(16, seed=1))


def test_scores_of_mamba2_are_those_of_its_moments() -> None:
    """A state whose C is silenced puts out nothing; a state that equals another can go at no loss."""
    model = mamba2(n_groups=1)
    layer, n = model.layers[0], model.config.d_state
    first, d = 2 * model.config.inner, model.config.inner
    with torch.no_grad():
        layer.in_proj.weight[first + n + 3] = layer.conv1d.bias[d + n + 3] = 0
        layer.in_proj.weight[first + 5] = layer.in_proj.weight[first + 4]
        for channels in (layer.conv1d.weight, layer.conv1d.bias):
            channels[d + 5] = channels[d + 4]
    subject, given = find_subject(open_module(model), read_inputs(inputs())), read_inputs(inputs())
    (energies, _), (losses, _) = (measured_scores(subject, given, name) for name in ("measured-energy", "damage"))
    assert energies[3] == 0
    assert (np.delete(energies, 3) > 0).all()
    assert losses[[4, 5]].min() < 1e-3 * np.median(losses)
