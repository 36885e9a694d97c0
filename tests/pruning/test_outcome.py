"""What is expected of a pruned model, and what was measured."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import small_models

import aireprune
from aireprune.calibration.comparison import Distance
from aireprune.families import lti_family
from aireprune.method.lowpass import SEEN, slow_power
from aireprune.method.system import difference
from aireprune.pruning.outcome import Outcome, limit_for
from aireprune.pruning.source import open_module


@pytest.mark.parametrize("horizon", [None, 20])
@pytest.mark.parametrize("reduce", ["truncate", "refit", "balanced"])
@pytest.mark.parametrize("name", ["s5", "s5 two ways", "s4d"])
def test_the_expected_error_is_that_of_the_stored_layers(name: str, reduce: str, horizon: int | None) -> None:
    """Of the horizon that a plan has, or of a thousand steps."""
    full = small_models.MODELS[name]()
    small = aireprune.prune(full, ratio=0.5, reduce=reduce, horizon=horizon)
    outcome = Outcome.of(small.plan)
    for before, after in zip(open_module(full).layers, open_module(small).layers, strict=True):
        one = lti_family(before, "this").system(before, open_module(full).arrays)
        two = lti_family(after, "this").system(after, open_module(small).arrays)
        powers = [slow_power(system, horizon=horizon or SEEN).sum() for system in (difference(one, two), one)]
        error = math.sqrt(powers[0] / powers[1])
        assert outcome.expected[before.name] == pytest.approx(error, rel=1e-3)
    values = list(outcome.expected.values())
    assert outcome.error == pytest.approx(math.sqrt(sum(v**2 for v in values if v) / len(values)))


def test_of_selective_layers_it_is_the_energy_that_is_gone() -> None:
    plan = aireprune.prune(small_models.mamba(), ratio=0.5).plan
    expected = Outcome.of(plan).expected
    assert [expected[layer.name] for layer in plan.layers] == [
        math.sqrt(1 - layer.energy_kept) for layer in plan.layers
    ]
    whole = aireprune.prune(small_models.mamba(), ratio=0.0).plan
    assert Outcome.of(whole).error == 0.0


def test_what_calibration_changed_is_not_expected_any_more() -> None:
    plan = aireprune.prune(small_models.s5(), ratio=0.5).plan
    calibrated = replace(plan, certificate=None, calibrated=12)
    assert Outcome.of(calibrated).error is None
    assert not Outcome.of(calibrated).is_bad


def test_measured_distances_take_the_place_of_expectations() -> None:
    plan = aireprune.prune(small_models.s5(), ratio=0.5).plan
    measured = Distance(0.1, {"a": 0.2, "b": 0.3}, kl=0.01, agreement=0.95)
    outcome = Outcome.of(plan, measured)
    assert outcome.output_error == {plan.layers[0].name: 0.2, plan.layers[1].name: 0.3}
    assert not outcome.is_bad
    assert Outcome.of(plan, replace(measured, agreement=0.5)).is_bad


def test_more_than_the_limit_is_bad() -> None:
    expected = {"a": 0.4, "b": 0.4}
    bad = {
        (reduce, family): Outcome(expected=expected, limit=limit_for(reduce, {family})).is_bad
        for reduce in ("truncate", "balanced")
        for family in ("s5", "s4d")
    }
    assert [key for key, found in bad.items() if not found] == [("balanced", "s5")]
    assert not Outcome(expected={"a": 0.9, "b": None}, limit=0.3).is_bad
