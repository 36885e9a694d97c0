"""Sweeps: resumed ones end like others, choices are made on validation data alone, answers survive packing."""

from __future__ import annotations

import json

import numpy as np
import pytest

import aireprune
from aireprune.errors import AireError
from aireprune.experiments import sweep
from aireprune.experiments.sweep import Settings, Variant, make_variants, parse_ratios, run_sweep
from aireprune.tasks.evaluate import evaluate

SETTINGS = Settings(make_variants(("aire", "random"), ("truncate", "refit"), False), (0.25, 0.5, 1.0), seeds=2)


def test_rows_are_what_pruning_and_evaluating_gives(toy, tmp_path):
    model, task = toy
    summary = run_sweep(model, task, SETTINGS, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "cells.jsonl").read_text().splitlines()]
    assert len(rows) == 1 + 3 * (2 + 2 * 2)
    row = next(row for row in rows if row["variant"] == "aire+refit" and row["ratio"] == 0.5)
    pruned = aireprune.prune(model, ratio=0.5, reduce="refit")
    assert row["test"] == evaluate(pruned, task, task.test)
    assert row["validation"] == evaluate(pruned, task, task.validation)
    assert row["layers"] == [[layer.name, len(layer.kept), layer.states] for layer in pruned.plan.layers]
    assert row["parameters"] == sum(p.numel() for p in pruned.parameters())
    randoms = [r["test"] for r in rows if r["variant"] == "random" and r["ratio"] == 0.5]
    point = next(p for p in summary["variants"]["random"]["points"] if p["ratio"] == 0.5)
    assert point["test"] == pytest.approx(np.mean(randoms))
    assert point["sd"] == pytest.approx(np.std(randoms, ddof=1))


def test_an_interrupted_sweep_ends_like_an_uninterrupted_one(toy, tmp_path):
    model, task = toy
    straight = run_sweep(model, task, SETTINGS, tmp_path / "a")

    class Stop(Exception):
        pass

    def stop(row, done, total):
        if done == 5:
            raise Stop

    with pytest.raises(Stop):
        run_sweep(model, task, SETTINGS, tmp_path / "b", stop)
    cells = tmp_path / "b" / "cells.jsonl"
    with cells.open("a") as file:
        file.write('{"variant": "aire", "rat')  # the machine went down while a line was written
    assert run_sweep(model, task, SETTINGS, tmp_path / "b") == straight
    assert cells.read_text() == (tmp_path / "a" / "cells.jsonl").read_text()


def test_nothing_is_done_twice(toy, tmp_path, monkeypatch):
    model, task = toy
    run_sweep(model, task, SETTINGS, tmp_path)
    monkeypatch.setattr(sweep, "judge", lambda *a: pytest.fail("a cell was done again"))
    run_sweep(model, task, SETTINGS, tmp_path)


def test_another_sweep_does_not_mix_in(toy, tmp_path):
    model, task = toy
    run_sweep(model, task, Settings((Variant.of("aire"),), (0.5,)), tmp_path)
    with pytest.raises(AireError, match="its examples is 1000, not 20"):
        run_sweep(model, task, Settings((Variant.of("aire"),), (0.5,), examples=20), tmp_path)
    changed = Variant("aire", options={"epsilon": 0.1})
    with pytest.raises(AireError, match="its aire has other options"):
        run_sweep(model, task, Settings((changed,), (0.5,)), tmp_path)
    more = run_sweep(model, task, Settings((Variant.of("aire"), Variant.of("last")), (0.25, 0.5)), tmp_path)
    assert set(more["variants"]) == {"aire", "last"}


def test_the_safe_ratio_follows_validation_and_not_the_test(toy):
    _, task = toy
    settings = Settings((Variant.of("aire"),), (0.1, 0.2, 0.3, 0.4), drop=2.0)
    validation, test = [0.90, 0.89, 0.88, 0.80, 0.90], [0.9, 0.1, 0.2, 0.9, 0.9]
    rows = {}
    for ratio, v, t in zip(settings.ratios, validation, test, strict=True):
        name = "aire" if ratio else "full"
        answers = sweep.pack((np.arange(70) < t * 70).astype(float))
        rows[name, ratio, 0] = {
            "validation": v,
            "test": t,
            "answers": answers,
            "removed": ratio,
            "parameters": 1,
            "layers": [],
        }
    safe = sweep.summarise(task, settings, rows)["variants"]["aire"]["safe"]
    assert (safe["ratio"], safe["test"]) == (0.2, 0.2)


def test_language_models_are_judged_in_bits_per_byte(toy_language, tmp_path):
    model, task = toy_language
    summary = run_sweep(model, task, Settings((Variant.of("aire"),), (0.5,), drop=1e9), tmp_path)
    assert summary["metric"] == "bits per byte"
    assert summary["full"]["test"] == pytest.approx(evaluate(model, task, task.test))
    assert summary["variants"]["aire"]["safe"]["ratio"] == 0.5
    assert task.drop(2.0, 2.1) == pytest.approx(0.05)


@pytest.mark.parametrize("values", [np.array([1.0, 0, 0, 1, 1, 1, 0, 1, 1]), np.array([1.25, 2.5, 0.125])])
def test_answers_survive_packing(values):
    np.testing.assert_array_equal(sweep.unpack(json.loads(json.dumps(sweep.pack(values))), len(values)), values)


def test_ratios_and_variants_as_people_write_them():
    assert parse_ratios("0:1:0.1")[-1] == 1.0
    assert len(parse_ratios("0:1:0.1")) == 11
    assert parse_ratios("0.5,0.2") == (0.2, 0.5)
    for bad in ("half", "0:1", "0:1:0"):
        with pytest.raises(AireError, match="not FROM:TO:STEP"):
            parse_ratios(bad)
    with pytest.raises(AireError, match="0 to 1"):
        Settings((Variant.of("aire"),), (1.5,))
    names = [v.name for v in make_variants(("aire", "last"), ("truncate", "balanced"), True)]
    assert names == ["aire", "aire+calibrated", "balanced", "balanced+calibrated", "last"]
    with pytest.raises(AireError, match="goes with method aire"):
        make_variants(("last",), ("balanced",), False)
