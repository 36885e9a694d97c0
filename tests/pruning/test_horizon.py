"""States that remember far more than the model reads: counted within the inputs, or within what most states remember."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models
import torch

import aireprune
from aireprune.errors import AireError, Notice
from aireprune.models.s5 import S5Model
from aireprune.pruning import horizon
from aireprune.pruning import prune as walk
from aireprune.pruning.horizon import lasting
from aireprune.pruning.plan import Plan
from aireprune.pruning.prune import prune_module
from aireprune.pruning.request import make_job
from aireprune.pruning.source import open_module

LENGTH = small_models.LENGTH


def model(memory: float = 1e7, states: int = 2) -> S5Model:
    """An S5 model of which some states of every layer remember so many steps."""
    found = small_models.s5()
    with torch.no_grad():
        for layer in found.layers:
            layer.seq.log_step.clamp_(min=-2.0)
            steps = layer.seq.log_step.exp().squeeze()[:states]
            layer.seq.Lambda_re[:states] = -1 / (memory * steps)
    return found


def pruned(full: S5Model, **choices: Any) -> tuple[Plan, float, tuple[str, ...]]:
    """The plan, the divergence on held-out inputs and what is said."""
    done = prune_module(
        open_module(full), make_job(None, {"ratio": 0.6, "calibrate": small_models.inputs(), **choices})
    )
    assert done.distance is not None
    return done.plan, done.distance.divergence, done.notices


def test_states_that_outlive_the_inputs_are_counted() -> None:
    source = open_module(model(1e7))
    assert lasting(source, 10**6) == lasting(source, 10**5) == 4
    assert lasting(source, 2 * 10**7) == 0


@pytest.mark.parametrize("seed", range(3))
def test_what_is_closer_on_held_out_inputs_stays(seed: int) -> None:
    torch.manual_seed(seed)
    full, inputs = model(), small_models.inputs(seed=seed)
    plan, found, said = pruned(full, calibrate=inputs)
    tried = {steps: pruned(full, calibrate=inputs, reduce="balanced", horizon=steps) for steps in (None, LENGTH)}
    best = min(tried, key=lambda steps: tried[steps][1])
    assert plan.horizon == best
    assert found == tried[best][1]
    assert plan.layers == tried[best][0].layers
    assert any(f"horizon={LENGTH}" in notice for notice in said) == (best is not None)


def test_both_outcomes_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    divergences = iter((2.0, 1.0, 1.0, 2.0))
    monkeypatch.setattr(horizon, "_divergence", lambda *given: next(divergences))
    plan, _, said = pruned(model())
    assert plan.horizon == LENGTH
    assert any("is 1 against 2." in notice for notice in said)
    assert pruned(model())[0].horizon is None


def test_each_way_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int | None] = []
    reduced = walk._reduced

    def counting(source: Any, job: Any, *rest: Any) -> Any:
        tried.append(job.request.horizon)
        return reduced(source, job, *rest)

    monkeypatch.setattr(walk, "_reduced", counting)
    pruned(model())
    assert tried == [None, LENGTH]


def test_if_no_way_works_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: Any) -> Any:
        raise AireError("Neither way.")

    monkeypatch.setattr(walk, "_reduced", failing)
    with pytest.raises(AireError, match="Neither way"):
        pruned(model())


def test_a_way_that_fails_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    reduced = walk._reduced

    def failing(source: Any, job: Any, *rest: Any) -> Any:
        if job.request.horizon is None:
            raise AireError("No.")
        return reduced(source, job, *rest)

    monkeypatch.setattr(walk, "_reduced", failing)
    plan, _, said = pruned(model())
    assert plan.horizon == LENGTH
    assert not any("against" in notice for notice in said)


@pytest.mark.parametrize("choices", [{"reduce": "balanced"}, {"method": "aire", "reduce": "truncate"}, {"horizon": 7}])
def test_whoever_names_a_reduction_or_a_horizon_gets_it(choices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horizon, "lasting", lambda *given: pytest.fail("nothing is open"))
    assert pruned(model(), **choices)[0].horizon == choices.get("horizon")


def test_states_that_forget_in_time_are_balanced_without_a_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horizon, "_divergence", lambda *given: pytest.fail("nothing is tried"))
    assert (
        pruned(model(memory=LENGTH / 2, states=small_models.s5().layers[0].seq.Lambda_re.shape[0]))[0].horizon is None
    )


def test_measured_allocation_is_within_the_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    divergences = iter((2.0, 1.0))
    monkeypatch.setattr(horizon, "_divergence", lambda *given: next(divergences))
    plan = pruned(model(), allocate="measured")[0]
    given = pruned(model(), allocate="measured", horizon=LENGTH)[0]
    assert plan.allocate == "measured"
    assert plan.horizon == LENGTH
    assert plan.layers == given.layers


def test_a_file_is_pruned_as_the_model_is(tmp_path: Path) -> None:
    full, inputs = model(), small_models.inputs()
    aireprune.save(full, tmp_path / "full")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        done = aireprune.prune_file(tmp_path / "full", tmp_path / "small", ratio=0.6, calibrate=inputs)
    expected = pruned(full)[0]
    assert done.horizon == Plan.load(tmp_path / "small" / "plan.json").horizon == expected.horizon
    assert [layer.kept for layer in done.layers] == [layer.kept for layer in expected.layers]


def test_without_inputs_it_is_what_most_states_remember() -> None:
    full = model()
    memory = np.concatenate([-1 / states.log_radius.ravel() for states in open_module(full).states()])
    with pytest.warns(Notice, match="4 states remember more than 100,000 steps"):
        found = aireprune.plan(full, ratio=0.5)
    assert found.horizon == round(10 * np.median(memory))
    assert found.layers == aireprune.plan(full, ratio=0.5, reduce="balanced", horizon=found.horizon).layers
    with pytest.warns(Notice, match="2 states remember"):
        aireprune.plan(model(states=1), ratio=0.5)


@pytest.mark.parametrize(
    "choices", [{"horizon": LENGTH}, {"reduce": "balanced"}, {"method": "aire", "reduce": "truncate"}]
)
def test_without_inputs_whoever_names_a_way_gets_it(choices: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert aireprune.plan(model(), ratio=0.5, **choices).horizon == choices.get("horizon")


def test_without_inputs_states_that_forget_at_once_leave_a_step() -> None:
    full = model(states=1)
    with torch.no_grad():
        for layer in full.layers:
            layer.seq.Lambda_re[1:] = -1e4
    with pytest.warns(Notice, match="only 1 step was counted"):
        assert aireprune.plan(full, ratio=0.5).horizon == 1


def test_without_inputs_states_that_end_leave_the_horizon_open() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert aireprune.plan(model(memory=1e4), ratio=0.5).horizon is None
