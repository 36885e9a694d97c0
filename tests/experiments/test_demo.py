"""The demonstration, with few variants and digits."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import aireprune
from aireprune import embedded
from aireprune.experiments import demo
from aireprune.experiments.variants import Variant
from aireprune.tasks.evaluate import evaluate


@pytest.fixture
def few(monkeypatch):
    digits = embedded.digits()
    task = replace(digits, test=digits.test.rows(slice(0, 20)))
    monkeypatch.setattr(demo.embedded, "digits", lambda: task)
    monkeypatch.setattr(demo, "VARIANTS", (Variant.of("aire"), Variant.of("aire", "balanced")))
    monkeypatch.setattr(demo, "RATIOS", (0.4,))
    monkeypatch.setattr(demo, "TIMED_BATCH", 2)
    monkeypatch.setattr(demo, "TIMED_RUNS", 1)
    return task


def test_what_it_shows_is_what_it_left(few, tmp_path):
    steps = []
    found = demo.run_demo(tmp_path / "out", lambda what, done, total: steps.append((what, done, total)))
    assert steps == [
        ("the full model", 0, 3),
        ("aire at 40%", 1, 3),
        ("balanced at 40%", 2, 3),
        ("timing", 3, 3),
    ]
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == json.loads(json.dumps(found.to_dict()))
    assert [row.model for row in found.models] == ["dense", "masked", "removed", "balanced"]
    for row in found.models:
        model = aireprune.load(tmp_path / "out" / row.model)
        assert row.accuracy == evaluate(model, few, few.test)
        assert row.parameters == sum(parameter.numel() for parameter in model.parameters())
    dense, masked, removed, balanced = found.models
    assert masked.accuracy == removed.accuracy == found.accuracy["aire"][0]
    assert balanced.accuracy == found.accuracy["balanced"][0]
    assert dense.accuracy == found.full_accuracy
    assert removed.parameters < masked.parameters == dense.parameters
    assert dense.speedup == 1
