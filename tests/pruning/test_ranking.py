"""States in the order of their scores, as `aireprune.score` gives them."""

from __future__ import annotations

import numpy as np
import pytest

import aireprune
from aireprune import embedded


@pytest.mark.parametrize("method", ["aire", "last", "global-magnitude"])
def test_the_best_states_are_those_that_a_plan_keeps(method):
    """A plan by a global method keeps the best-compared states, so its kept sets are the first ranks of every layer."""
    ranking = aireprune.score(embedded.MODEL, method)
    plan = aireprune.plan(embedded.MODEL, method, 0.4, reduce="truncate")
    for layer in plan.layers:
        ranked = [state.state for state in ranking.states if state.layer == layer.name]
        assert sorted(ranked[: len(layer.kept)]) == list(layer.kept)
        assert sorted(ranked) == list(range(layer.states))


def test_numbers_of_a_state():
    ranking = aireprune.score(embedded.MODEL)
    first = ranking.states[0]
    assert (first.rank, first.compared) == (1, 1.0)
    assert first.score == pytest.approx(first.b2 * first.c2 / (1 - first.radius**2))
    compared = [state.compared for state in ranking.states if state.layer == first.layer]
    assert (np.diff(compared) <= 0).all()
    assert len(ranking.best(3)) == 3 * 4
    assert ranking.best(0) == ranking.states


def test_the_horizon_counts_the_first_steps_only():
    all_steps, few = aireprune.score(embedded.MODEL), aireprune.score(embedded.MODEL, horizon=10)
    whole = {(state.layer, state.state): state.score for state in all_steps.states}
    assert all(state.score < whole[state.layer, state.state] for state in few.states)


def test_data_frame():
    pytest.importorskip("pandas", reason="pandas is not installed: no data frame was made")
    assert len(aireprune.score(embedded.MODEL).to_pandas()) == 128
