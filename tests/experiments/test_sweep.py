"""Sweeps: rows are what pruning and evaluating gives, and resumed sweeps end like others."""

from __future__ import annotations

import json

import numpy as np
import pytest

import aireprune
from aireprune.errors import AireError
from aireprune.experiments import workers
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.sweep import run_sweep
from aireprune.experiments.variants import Variant, make_variants
from aireprune.tasks.evaluate import evaluate

REQUEST = SweepRequest(
    variants=make_variants(("aire", "random"), ("truncate", "refit"), False), ratios=(0.25, 0.5, 1.0), seeds=2
)


def aire(**changes):
    return SweepRequest(**{"variants": (Variant.of("aire"),), "ratios": (0.5,), **changes})


def test_rows_are_what_pruning_and_evaluating_gives(toy, tmp_path):
    model, task = toy
    summary = run_sweep(model, task, REQUEST, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "cells.jsonl").read_text().splitlines()]
    assert len(rows) == 1 + 3 * (2 + 2 * 2)
    row = next(row for row in rows if row["variant"] == "aire+refit" and row["ratio"] == 0.5)
    pruned = aireprune.prune(model, ratio=0.5, reduce="refit")
    assert row["test"] == evaluate(pruned, task, task.test)
    assert row["validation"] == evaluate(pruned, task, task.validation)
    assert row["layers"] == [[layer.name, len(layer.kept), layer.states] for layer in pruned.plan.layers]
    assert row["parameters"] == sum(p.numel() for p in pruned.parameters())
    randoms = [r["test"] for r in rows if r["variant"] == "random" and r["ratio"] == 0.5]
    point = summary.variants["random"].at(0.5)
    assert point.test == pytest.approx(np.mean(randoms))
    assert point.sd == pytest.approx(np.std(randoms, ddof=1))
    assert json.loads((tmp_path / "summary.json").read_text()) == summary.to_dict()


def test_a_task_that_does_not_fit_leaves_nothing_behind(toy, toy_language, tmp_path):
    with pytest.raises(AireError, match="does not fit task toy-language"):
        run_sweep(toy[0], toy_language[1], REQUEST, tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_an_interrupted_sweep_ends_like_an_uninterrupted_one(toy, tmp_path):
    model, task = toy
    straight = run_sweep(model, task, REQUEST, tmp_path / "a")

    class Stop(Exception):
        pass

    def stop(found, done, total):
        if done == 5:
            raise Stop

    with pytest.raises(Stop):
        run_sweep(model, task, REQUEST, tmp_path / "b", stop)
    cells = tmp_path / "b" / "cells.jsonl"
    with cells.open("a") as file:
        file.write('{"variant": "aire", "rat')  # the machine went down while a line was written
    assert run_sweep(model, task, REQUEST, tmp_path / "b") == straight
    assert cells.read_text() == (tmp_path / "a" / "cells.jsonl").read_text()


def test_nothing_is_done_twice(toy, tmp_path, monkeypatch):
    model, task = toy
    run_sweep(model, task, REQUEST, tmp_path)
    monkeypatch.setattr(workers, "Judge", lambda *a: pytest.fail("a cell was done again"))
    run_sweep(model, task, REQUEST, tmp_path)


def test_another_sweep_does_not_mix_in(toy, tmp_path):
    model, task = toy
    run_sweep(model, task, aire(), tmp_path)
    with pytest.raises(AireError, match="its examples is 1000, not 20"):
        run_sweep(model, task, aire(examples=20), tmp_path)
    with pytest.raises(AireError, match="its aire has other options"):
        run_sweep(model, task, aire(variants=(Variant("aire", epsilon=0.1),)), tmp_path)
    more = run_sweep(model, task, aire(variants=(Variant.of("aire"), Variant.of("last")), ratios=(0.25, 0.5)), tmp_path)
    assert set(more.variants) == {"aire", "last"}


def test_language_models_are_judged_in_bits_per_byte(toy_language, tmp_path):
    model, task = toy_language
    summary = run_sweep(model, task, aire(drop=1e9), tmp_path)
    assert summary.metric == "bits per byte"
    assert summary.full.test == pytest.approx(evaluate(model, task, task.test))
    assert summary.variants["aire"].safe_ratio == 0.5
    assert task.drop(2.0, 2.1) == pytest.approx(0.05)


def test_two_sweeps_do_not_share_a_folder(toy, tmp_path):
    """The second is refused, and the first one's cells are written once."""
    model, task = toy
    refused = []

    def second(found, done, total):
        with pytest.raises(AireError, match=f"Another sweep is running in {tmp_path}"):
            run_sweep(model, task, aire(), tmp_path)
        refused.append(done)

    run_sweep(model, task, aire(), tmp_path, second)
    assert refused == [1]
    assert len((tmp_path / "cells.jsonl").read_text().splitlines()) == 2
    run_sweep(model, task, aire(), tmp_path)
