"""aire demo: what it prints of what was computed."""

from __future__ import annotations

import json

import pytest
from json_schema import check

import aireprune
from aireprune import embedded
from aireprune.experiments import demo
from aireprune.experiments.demo import Compared, Demo


@pytest.fixture
def computed(monkeypatch):
    """Results that stand in for a minute of work."""

    def stand_in(out, report, examples):
        report("the full model", 0, 1)
        row = {"accuracy": 0.5, "parameters": 1234, "bytes": 5000, "milliseconds": 7.0, "speedup": 1.5}
        return Demo(
            examples=1000,
            full_accuracy=0.99,
            ratios=(0.2, 0.4),
            accuracy={"aire": (0.9, 0.8), "random": (0.5, 0.25)},
            plan=aireprune.plan(embedded.MODEL, ratio=0.4, reduce="truncate"),
            models=tuple(Compared(model=name, **row) for name in ("dense", "removed")),
            seconds=12.0,
            folder=str(out),
        )

    monkeypatch.setattr(demo, "run_demo", stand_in)


@pytest.mark.usefixtures("computed")
def test_tables(aire):
    code, out, _ = aire("demo", "-o", "here")
    assert code == 0
    assert "A bidirectional S5 with 128 states (conjugate pairs) in 4 layers" in out
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "random 50.0 25.0" in rows
    assert "removed 50.0 % 1,234 5 kB 7 ms 1.50x" in rows
    assert "aire: kept states per layer" in rows
    assert "Files: here/dense, here/removed (model, config and plan) and here/results.json" in rows


@pytest.mark.usefixtures("computed")
def test_json(aire):
    document = json.loads(aire("demo", "-o", "here", "--json")[1])
    keys = ["schema", "examples", "full_accuracy", "ratios", "accuracy", "plan", "models", "seconds", "folder"]
    assert list(document) == keys
    check("demo", document)
    assert document["models"][0]["model"] == "dense"
