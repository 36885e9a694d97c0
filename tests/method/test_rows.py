"""Shorter rows: the choice is the one that trying everything finds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aireprune.method.decision import Decision
from aireprune.method.rows import shorten_rows, shortest_rows

scores_strategy = st.lists(
    st.lists(st.sampled_from([0.0, 0.01, 0.1, 1.0, 3.0, 20.0]) | st.floats(0, 30), min_size=3, max_size=3),
    min_size=2,
    max_size=3,
).map(np.array)


def longest(kept: np.ndarray, rows: int, n: int) -> int:
    return int(np.bincount(np.asarray(kept, int) // n, minlength=rows).max())


@given(scores_strategy, st.integers(0, 9), st.sampled_from([0.0, 0.05, 0.5, 3.0]))
def test_no_shorter_rows_are_good_enough_and_no_choice_of_that_length_is_better(scores, keep, cost):
    rows, n = scores.shape
    keep = min(keep, scores.size)
    choices = [np.array(choice, int) for choice in combinations(range(scores.size), keep)]
    removed = [np.delete(scores, choice).sum() for choice in choices]
    allowed = (1 + cost) * min(removed)
    width = min(
        longest(choice, rows, n) for choice, gone in zip(choices, removed, strict=True) if gone <= allowed * (1 + 1e-12)
    )
    least = min(gone for choice, gone in zip(choices, removed, strict=True) if longest(choice, rows, n) <= width)
    kept = shortest_rows(scores, keep, cost)
    assert len(set(kept)) == keep
    assert (np.diff(kept) > 0).all()
    assert longest(kept, rows, n) <= width
    assert np.delete(scores, kept).sum() == pytest.approx(least)


def test_states_without_a_score_stay():
    scores = np.array([[np.nan, np.nan, 9.0], [5.0, 4.0, 3.0]])
    assert shortest_rows(scores, 3, 100.0).tolist() == [0, 1, 3]
    assert shortest_rows(scores, 3, 0.0).tolist() == [0, 1, 2]


def test_only_layers_of_several_rows_change():
    scores = np.array([10.0, 9.0, 0.5, 7.0, 0.49, 0.0, 0.1, 0.1, 0.1])
    decision = Decision([np.array([0, 1, 2, 3]), np.array([0, 1, 2, 3])], 0.5)
    shorter = shorten_rows(decision, [scores, scores], [3, 1])
    assert [kept.tolist() for kept in shorter.kept] == [[0, 1, 3, 4], [0, 1, 2, 3]]
    assert shorter.threshold == 0.5
