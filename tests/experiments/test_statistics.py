"""Intervals and paired tests against their definitions and published examples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aireprune.experiments.statistics import interval, paired_interval, paired_p_value, student_interval


def test_wilson_interval():
    # Newcombe (1998), Table I: 81 of 263, Wilson score: 0.2553 to 0.3662
    low, high = interval(np.r_[np.ones(81), np.zeros(182)])
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
    low, high = interval(np.ones(20))
    assert high == pytest.approx(1)
    assert 0.8 < low < 0.9


def test_interval_of_other_values_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        low, high = interval(rng.normal(2.0, 0.5, 100))
        hits += low <= 2.0 <= high
    assert 0.92 <= hits / 400 <= 0.98


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (5, 1), (10, 3), (700, 600)])
def test_mcnemar_is_the_exact_binomial_test(wins, losses):
    a = np.r_[np.ones(wins), np.zeros(losses), np.ones(50), np.zeros(50)]
    b = np.r_[np.zeros(wins), np.ones(losses), np.ones(50), np.zeros(50)]
    n, k = wins + losses, min(wins, losses)
    logs = [math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) - n * math.log(2) for i in range(k + 1)]
    expected = min(1.0, 2 * sum(map(math.exp, logs)))
    assert paired_p_value(a, b) == pytest.approx(expected, rel=1e-9)
    assert paired_p_value(b, a) == paired_p_value(a, b)


def test_paired_values_see_what_unpaired_ones_would_not():
    rng = np.random.default_rng(1)
    base = rng.normal(2, 1, 300)
    assert paired_p_value(base + 0.01 + rng.normal(0, 0.01, 300), base) < 1e-6
    assert paired_p_value(base, base) == 1


def test_the_paired_interval_covers_the_difference_as_often_as_it_says():
    rng = np.random.default_rng(2)
    hits = dict.fromkeys(("shares", "values"), 0)
    for _ in range(400):
        a = rng.random(120) < 0.8
        b = np.where(rng.random(120) < 0.1, ~a, a)  # 0.1 (0.8 - 0.2) = 6 points worse
        low, high = paired_interval(a.astype(float), b.astype(float))
        hits["shares"] += low <= 0.06 <= high
        base = rng.normal(2, 1, 120)
        low, high = paired_interval(base + rng.normal(0.1, 0.3, 120), base)
        hits["values"] += low <= 0.1 <= high
    assert all(0.92 <= count / 400 <= 0.985 for count in hits.values())


def test_the_paired_interval_against_its_definition():
    # Agresti and Min (2005), section 2: (c* - b*) / n* -+ z sqrt((b* + c*) - (c* - b*)^2 / n*) / n*, cells + 1/2
    a = np.r_[np.ones(3), np.zeros(8), np.ones(20), np.zeros(9)]
    b = np.r_[np.zeros(3), np.ones(8), np.ones(20), np.zeros(9)]
    n, wins, losses = 42, 3.5, 8.5
    centre, half = (wins - losses) / n, 1.959964 * math.sqrt(wins + losses - (wins - losses) ** 2 / n) / n
    assert paired_interval(a, b) == pytest.approx((centre - half, centre + half), rel=1e-6)
    low, high = paired_interval(np.ones(50), np.ones(50))
    assert low == -high < 0  # not sure of it


def test_interval_of_three_values_covers_the_mean_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(1.0, 2.0, (2000, 3))
    bounds = np.array([student_interval(values) for values in draws])
    assert 0.93 <= np.mean((bounds[:, 0] <= 1) & (bounds[:, 1] >= 1)) <= 0.97
    assert student_interval(np.array([3.0])) == (-math.inf, math.inf)
    low, high = student_interval(np.arange(20.0))
    assert high - low == pytest.approx(2 * 1.96 * np.std(np.arange(20), ddof=1) / math.sqrt(20), rel=1e-3)
