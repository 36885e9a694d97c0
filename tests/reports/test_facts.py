"""What is read first says what was found, and no more."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from aireprune import embedded
from aireprune.pruning.plan import Plan
from aireprune.pruning.source import open_file
from aireprune.reports import facts
from aireprune.reports.layers import Sight, view_layers
from aireprune.reports.measured import Measured
from aireprune.reports.sizes import Size

MEASURED = Measured(
    task="digits",
    metric="accuracy",
    examples=1000,
    before=(99.6, 99.0, 99.8),
    after=(92.9, 91.1, 94.3),
    p=1e-9,
    speedup=(1.2, 1.1, 1.3),
    threads=2,
)


@pytest.fixture(scope="module")
def plan(pruned):
    return Plan.load(pruned / "plan.json")


def test_a_loss_is_called_one_only_if_it_is_sure(plan):
    told = facts.verdict_of_plan(plan, (), MEASURED, True)
    assert told == (
        "64 of 128 states (50 %) are gone, which costs 6.7 points: accuracy 92.9 % against 99.6 % of the full model on "
        "1,000 examples, p < 0.001."
    )
    unsure = replace(MEASURED, after=(99.4, 98.7, 99.7), p=0.5)
    assert "and no loss was measured: accuracy 99.4 % against 99.6 %" in facts.verdict_of_plan(plan, (), unsure, True)
    better = replace(MEASURED, after=(99.9, 99.7, 100), p=0.001)
    assert "no loss was measured" in facts.verdict_of_plan(plan, (), better, True)
    bits = replace(MEASURED, metric="bits per byte", before=(2.0, 1.9, 2.1), after=(2.2, 2.1, 2.3), p=0.01)
    told = facts.verdict_of_plan(plan, (), bits, True)
    assert "costs 10.0 % more bits per byte: bits per byte 2.200 against 2.000" in told


def test_without_a_task_only_the_layers_are_spoken_of(plan, pruned):
    layers = view_layers(Sight(full=open_file(embedded.MODEL), plan=plan, pruned=open_file(pruned)))
    told = facts.verdict_of_plan(plan, layers, None, True)
    errors = [100 * layer.certificate["relative_h2"] for layer in layers]
    assert f"changes by {min(errors):.0f} % to {max(errors):.0f} %" in told
    assert told.endswith("what that does to a task was not measured.")
    assert facts.verdict_of_plan(plan, (), None, False).startswith(
        "The plan takes out 64 of 128 states (50 %); nothing"
    )


def test_how_many_states_hold_the_energy():
    assert facts._holding(np.array([1.0, 98.0, np.nan, 1.0]), 0.98) == 1
    assert facts._holding(np.array([1.0, 98.0, 1.0]), 0.985) == 2
    assert facts._holding(np.zeros(3), 0.99) == 0


def test_numbers_before_and_after():
    (parameters, weights) = facts.size_facts(Size(200, 4000), Size(150, 3000))
    assert (parameters.before, parameters.value, parameters.note) == ("200", "150", "−25.0 %")
    assert (weights.before, weights.value, weights.note) == ("4 kB", "3 kB", "−25.0 %")
    assert [fact.before for fact in facts.size_facts(Size(200, None), None)] == [None]
    accuracy, speed = facts.measured_facts(MEASURED)
    assert (accuracy.before, accuracy.value) == ("99.6 %", "92.9 %")
    assert speed.value == "1.20×"
    busy = facts.measured_facts(replace(MEASURED, speedup=(1.2, 0.6, 2.3)))[1]
    assert busy.value == "unclear"
    assert "quartiles 0.60 to 2.30" in busy.note


@pytest.mark.parametrize(
    ("energies", "told"),
    [
        ([1.0, 1e-9], " 1 of them hold 99 % of every layer's energy; whether the others"),
        ([1.0, 1.0], " It takes all of them"),
    ],
)
def test_a_full_model_has_others_only_where_some_are_left(energies, told):
    layer = SimpleNamespace(counted=2, energy=np.array(energies))
    assert told in facts.verdict_of_model([layer])
