"""Layers as a page shows them."""

from __future__ import annotations

import numpy as np
import pytest

import aireprune
from aireprune import embedded
from aireprune.method.decision import energies
from aireprune.method.reductions import hankel_scores
from aireprune.method.states import LayerStates
from aireprune.pruning.plan import Plan
from aireprune.pruning.source import open_file
from aireprune.reports.layers import DATA_FREE, Sight, choices, slowest_poles, view_layers
from aireprune.zoo import FOLDER as ZOO


def test_poles_energies_scores_and_what_stays(pruned):
    source, plan = open_file(embedded.MODEL), Plan.load(pruned / "plan.json")
    views = view_layers(Sight(full=source, plan=plan, pruned=open_file(pruned), methods=("aire", "last")))
    for number, (view, states) in enumerate(zip(views, source.states(), strict=True)):
        np.testing.assert_allclose(np.exp(view.poles.log_radius), states.radius[:, 0], rtol=1e-6)
        np.testing.assert_array_equal(view.energy, energies([states])[0])
        assert set(view.scores) == {"peak"}  # energies are there already
        assert view.kept.tolist() == list(plan.layers[number].kept)
        np.testing.assert_allclose(view.hankel, hankel_scores(source.system(number, "a test")))
        assert view.after is None
        assert view.certificate["name"] == view.name
        assert view.response.gain[2].max() <= view.certificate["bound"]


def test_balanced_layers_show_their_new_poles():
    plan = aireprune.plan(embedded.MODEL, method="aire", reduce="balanced", layout="adaptive", ratio=0.5)
    for view, layer in zip(view_layers(Sight(full=open_file(embedded.MODEL), plan=plan)), plan.layers, strict=True):
        assert view.after is not None
        assert 0 < len(view.after.angle) <= len(layer.kept)


def test_of_a_state_with_many_modes_the_slowest_is_shown():
    shape = (2, 3)
    states = LayerStates(
        "x",
        np.array([[-3.0, -0.5, -2.0], [-0.1, -4.0, -1.0]]),
        np.arange(6.0).reshape(shape),
        np.ones(shape),
        np.ones((1, *shape)),
    )
    poles = slowest_poles(states)
    assert poles.log_radius.tolist() == [np.float32(-0.5), np.float32(-0.1)]
    assert poles.angle.tolist() == [1.0, 3.0]


def test_selective_layers_have_neither_hankel_values_nor_responses():
    plan = aireprune.plan(ZOO / "smnist-mamba", ratio=0.5, reduce="truncate", layout="adaptive")
    for view in view_layers(Sight(full=open_file(ZOO / "smnist-mamba"), plan=plan)):
        assert view.hankel is None
        assert view.response is None
        assert view.kept is not None
        assert view.modes > 1


def test_methods_that_need_data_are_not_offered():
    assert "aire" in DATA_FREE
    assert not any("calibrated" in choice.name for choice in choices(DATA_FREE))


@pytest.mark.parametrize("horizon", [None, 16])
def test_a_horizon_changes_scores_and_not_energies(horizon):
    source = open_file(embedded.MODEL)
    (view, *_) = view_layers(Sight(full=source, horizon=horizon))
    assert ("energy" in view.scores) == (horizon is not None)
    if horizon is not None:
        assert (view.scores["energy"] < view.energy).all()
