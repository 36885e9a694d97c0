"""Measured allocation: states go where the model's answers need them, and never further from the full model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import small_models
import torch

import aireprune
from aireprune.errors import AireError
from aireprune.models.s5 import S5Model
from aireprune.pruning.request import make_job
from aireprune.pruning.search import Goal, search_ratio
from aireprune.pruning.source import open_module
from aireprune.tasks.base import Split, Task

GIVEN = small_models.inputs(32)
MEASURED: dict[str, Any] = {"ratio": 0.5, "calibrate": GIVEN, "allocate": "measured", "layout": "adaptive"}


def deaf() -> S5Model:
    """Its second layer has loud states, which the gate behind it throws away."""
    model = small_models.s5()
    with torch.no_grad():
        model.layers[0].seq.C.mul_(4)
        model.layers[1].seq.C.mul_(100)
        model.layers[1].out2.weight.zero_()
        model.layers[1].out2.bias.fill_(-30)
    return model


def counts(model: Any) -> list[int]:
    return [len(layer.kept) for layer in model.plan.layers]


def test_states_go_to_the_layer_that_is_heard() -> None:
    full = deaf()
    by_scores = aireprune.prune(full, **{**MEASURED, "allocate": "scores"})
    small = aireprune.prune(full, **MEASURED)
    assert sum(counts(small)) == sum(counts(by_scores)) == 8
    assert counts(small)[0] > counts(by_scores)[0]
    assert small.plan.allocate == "measured"
    unseen = small_models.inputs(16, 9)
    assert small_models.distance(full, small, unseen) < small_models.distance(full, by_scores, unseen)


@pytest.mark.parametrize("name", small_models.MODELS)
def test_every_family_keeps_as_many_states_as_by_scores(name: str) -> None:
    full = small_models.MODELS[name]()
    small, by_scores = (aireprune.prune(full, **{**MEASURED, "allocate": way}) for way in ("measured", "scores"))
    assert sum(counts(small)) == sum(counts(by_scores))


def test_a_checkpoint_is_allocated_as_its_model_is(tmp_path: Path) -> None:
    full = deaf()
    aireprune.save(full, tmp_path / "full")
    plan = aireprune.prune_file(tmp_path / "full", tmp_path / "out", **MEASURED)
    small = aireprune.prune(full, **MEASURED)
    assert [layer.kept for layer in plan.layers] == [layer.kept for layer in small.plan.layers]
    assert aireprune.Plan.load(tmp_path / "out" / "plan.json").allocate == "measured"
    again = aireprune.prune(full, plan)
    assert counts(again) == counts(small)


@pytest.mark.parametrize(
    ("changes", "mention"),
    [
        ({"calibrate": None}, "give them with calibrate="),
        ({"layout": "uniform"}, "takes a ratio="),
        ({"layout": "padded"}, "takes a ratio="),
        ({"ratio": None, "threshold": 0.1}, "takes a ratio="),
        ({"allocate": "guessed"}, "no allocation 'guessed'"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], mention: str) -> None:
    with pytest.raises(AireError, match=mention):
        aireprune.prune(small_models.s5(), **{**MEASURED, **changes})


def test_a_search_for_a_ratio_is_refused() -> None:
    split = Split(GIVEN, torch.zeros(len(GIVEN), dtype=int).numpy())
    task = Task("toy", small_models.LENGTH, 2, 3, lambda x: x, split, split, split)
    with pytest.raises(AireError, match="would measure anew"):
        search_ratio(open_module(small_models.s5()), make_job(None, MEASURED), Goal(task=task, max_drop=1))  # type: ignore[arg-type]
