"""Speedups at the safe ratios: what is timed, and what is kept of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from aireprune.experiments.paper import speed
from aireprune.experiments.paper.reproduction import plan_reproduction
from aireprune.experiments.paper.run import gather
from aireprune.experiments.paper.speed import Speeds, measure, time_models
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.sweep import run_sweep
from aireprune.experiments.variants import Variant

KEPT = sorted((Path(__file__).parents[3] / "docs" / "results").rglob("speed.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.parent.name)
def test_kept_speeds_come_back(path):
    assert json.dumps(Speeds.load(path).to_dict(), indent=1) + "\n" == path.read_text()


def test_aire_and_the_last_variant_are_timed_where_they_may_be_pruned(toy, tmp_path):
    model, task = toy
    variants = (Variant.of("aire"), Variant.of("last"), Variant.of("aire", "refit"))
    request = SweepRequest(variants=variants, ratios=(0.5,), drop=100.0)
    summary = run_sweep(model, task, request, tmp_path)
    found = measure(model.train(), task, request, summary)
    assert model.training
    assert list(found.variants) == ["aire", "aire+refit"]
    assert (found.batch, found.length) == (8, 24)
    curves = {**summary.variants, "aire": replace(summary.variants["aire"], safe_ratio=0.0)}
    assert list(measure(model, task, request, replace(summary, variants=curves)).variants) == ["aire+refit"]


def test_models_are_timed_once(small_zoo, tmp_path, monkeypatch):
    wanted = plan_reproduction("table3", "mini", small_zoo, tmp_path / "docs")
    gather(wanted, lambda *step: None)
    steps = []
    time_models(wanted, lambda what, done, total: steps.append((what, done, total)))
    assert steps == [("timing image-s5", 0, 2), ("timing text-s5", 1, 2)]
    assert all((wanted.sweep_folder(model) / "speed.json").is_file() for model in wanted.models)
    monkeypatch.setattr(speed, "measure", lambda *a: pytest.fail("a model was timed again"))
    time_models(wanted, lambda *step: None)
