"""From scores to kept states: properties of normalisation, budgets and ties."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aireprune.errors import AireError
from aireprune.method.selection import Budget, Pool, Rule, prefix_normalize, select

scores_strategy = st.lists(
    st.floats(0, 1e12, allow_subnormal=False) | st.sampled_from([0.0, 1.0, 1e-300, 2.5]), min_size=1, max_size=30
).map(np.array)
layers_strategy = st.lists(scores_strategy, min_size=1, max_size=5)
ratios = st.integers(0, 100).map(lambda p: p / 100)


@given(scores_strategy, st.sampled_from([0.0, 1e-6, 1.0]))
def test_prefix_scores_never_increase_and_match_the_formula(scores, epsilon):
    normalized = prefix_normalize(scores, epsilon)
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    assert all(normalized[a] >= normalized[b] for a, b in pairwise(order))
    total = Fraction(epsilon)
    for i in order:
        total += Fraction(float(scores[i]))
        expected = float(Fraction(float(scores[i])) / total) if total else 0.0
        assert normalized[i] == pytest.approx(expected, rel=1e-12, abs=1e-300)


@given(layers_strategy, ratios, st.integers(0, 3), st.booleans())
def test_the_global_budget_is_exact(scores, ratio, min_states, prefix):
    kept = select(Pool.of(scores), Budget(ratio=ratio, min_states=min_states), Rule(prefix=prefix)).kept
    floors = [min(min_states, len(s)) for s in scores]
    states = sum(map(len, scores))
    budget = (100 - round(100 * ratio)) * states // 100
    assert sum(map(len, kept)) == max(budget, sum(floors))
    assert all(len(k) >= floor for k, floor in zip(kept, floors, strict=True))


@given(layers_strategy, ratios, st.integers(0, 3))
def test_the_uniform_budget_is_exact_and_even(scores, ratio, min_states):
    kept = select(Pool.of(scores), Budget(ratio=ratio, min_states=min_states), Rule(prefix=False, scope="uniform")).kept
    share = Fraction(100 - round(100 * ratio), 100)
    floors = [min(min_states, len(s)) for s in scores]
    budget = math.floor(share * sum(map(len, scores)))
    assert sum(map(len, kept)) == max(budget, sum(floors))
    if min_states == 0:
        assert all(abs(len(k) - share * len(s)) < 1 for k, s in zip(kept, scores, strict=True))
    assert all(len(k) >= floor for k, floor in zip(kept, floors, strict=True))


@given(layers_strategy, ratios, st.booleans())
def test_kept_states_outrank_removed_ones(scores, ratio, prefix):
    selection = select(Pool.of(scores), Budget(ratio=ratio), Rule(prefix=prefix))
    for values, kept in zip(scores, selection.kept, strict=True):
        gone = np.setdiff1d(np.arange(len(values)), kept)
        if len(kept) and len(gone):
            assert values[kept].min() >= values[gone].max()
    gone = np.concatenate(
        [s[np.setdiff1d(np.arange(len(s)), k)] for s, k in zip(selection.scores, selection.kept, strict=True)]
    )
    if len(gone) and math.isfinite(selection.threshold):
        assert gone.max() <= selection.threshold


@given(layers_strategy, ratios)
def test_a_threshold_read_off_a_ratio_keeps_at_least_the_same_states(scores, ratio):
    by_ratio = select(Pool.of(scores), Budget(ratio=ratio))
    if math.isfinite(by_ratio.threshold):
        by_threshold = select(Pool.of(scores), Budget(threshold=by_ratio.threshold))
        assert all(set(a) <= set(b) for a, b in zip(by_ratio.kept, by_threshold.kept, strict=True))


def test_ties_go_to_the_lower_layer_then_the_lower_index():
    scores = [np.array([1.0, 2.0, 2.0, 1.0]), np.array([2.0, 1.0, 1.0, 2.0])]
    kept = select(Pool.of(scores), Budget(ratio=0.625, min_states=0), Rule(prefix=False)).kept
    assert [list(k) for k in kept] == [[1, 2], [0]]
    kept = select(Pool.of(scores), Budget(ratio=0.375, min_states=0), Rule(prefix=False)).kept
    assert [list(k) for k in kept] == [[0, 1, 2], [0, 3]]


@pytest.mark.parametrize(
    ("ratio", "states", "expected"), [(0.9, 10, 1), (0.7, 10, 3), (0.6, 5, 2), (0.1, 10, 9), (1.0, 7, 0)]
)
def test_binary_fractions_do_not_cost_a_state(ratio, states, expected):
    assert Budget(ratio=ratio).keep_of(states) == expected


def test_ratio_one_leaves_min_states_in_every_layer():
    scores = [np.arange(1.0, 6), np.arange(1.0, 4)]
    assert [len(k) for k in select(Pool.of(scores), Budget(ratio=1.0)).kept] == [1, 1]
    assert [len(k) for k in select(Pool.of(scores), Budget(ratio=1.0, min_states=2)).kept] == [2, 2]
    assert [len(k) for k in select(Pool.of(scores), Budget(ratio=1.0, min_states=0)).kept] == [0, 0]


def test_only_epsilon_lets_a_weak_layer_vanish():
    scores = [np.array([5.0, 4.0, 3.0]), np.array([1e-9, 1e-9, 1e-9])]
    budget = Budget(ratio=0.5, min_states=0)
    assert len(select(Pool.of(scores), budget).kept[1]) > 0  # its best state scores 1, however weak it is
    assert len(select(Pool.of(scores), budget, Rule(epsilon=1e-3)).kept[1]) == 0


def test_rounding_and_one_size():
    scores = [np.arange(16.0, 0, -1), np.r_[100.0, np.full(15, 1e-6)]]
    assert [len(k) for k in select(Pool.of(scores), Budget(ratio=0.7), Rule(round_to=4)).kept] == [8, 4]
    assert [len(k) for k in select(Pool.of(scores), Budget(ratio=0.7), Rule(same_size=True)).kept] == [4, 4]
    with pytest.raises(AireError, match="cannot all get one size"):
        select(Pool.of([np.ones(3), np.ones(4)]), Budget(ratio=0.5), Rule(same_size=True))


def test_states_that_must_stay_do():
    scores = [np.array([np.nan, 3.0, 2.0, 1.0]), np.array([9.0, 1.0, 1.0, 1.0])]
    always = [np.array([True, False, False, False]), np.zeros(4, bool)]
    selection = select(replace(Pool.of(scores), always=always), Budget(ratio=0.5))
    assert 0 in selection.kept[0]
    assert sum(map(len, selection.kept)) == 4
    np.testing.assert_allclose(selection.scores[0][1:], prefix_normalize(np.array([3.0, 2.0, 1.0])))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ratio": 1.3}, "from 0 to 1; got 1.3"),
        ({"ratio": -0.1}, "from 0 to 1"),
        ({"ratio": float("nan")}, "from 0 to 1"),
        ({"threshold": -1.0}, "0 or more"),
        ({}, "how much is to go"),
        ({"ratio": "0.5"}, "are numbers"),
        ({"ratio": 0.5, "threshold": 0.1}, "not both"),
        ({"ratio": 0.5, "min_states": -1}, "0 or more"),
    ],
)
def test_bad_budgets_are_refused(arguments, message):
    with pytest.raises(AireError, match=message):
        Budget(**arguments)


def test_options_that_would_do_nothing_are_refused():
    with pytest.raises(AireError, match="not a threshold"):
        select(Pool.of([np.ones(3)]), Budget(threshold=0.1), Rule(prefix=False, scope="uniform"))
    with pytest.raises(AireError, match="does not use"):
        select(Pool.of([np.ones(3)]), Budget(ratio=0.1), Rule(prefix=False, epsilon=1e-3))
