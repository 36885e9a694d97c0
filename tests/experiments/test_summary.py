"""Summaries: choices are made on validation data alone, and summaries come back from disk as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aireprune.drawing import new_axes
from aireprune.experiments import summary as summary_module
from aireprune.experiments.cells import Key, Result, pack, read_cells
from aireprune.experiments.paper.models import ZOO, sweep_request
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.summary import Summary, chance, summarise
from aireprune.experiments.variants import Variant
from aireprune.tasks.base import Split

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def result(name, ratio, validation, test, seed=0):
    answers = pack((np.arange(70) < test * 70).astype(float))
    key = Key(name, ratio, seed)
    return key, Result(
        key=key, removed=ratio, layers=(), parameters=100, validation=validation, test=test, answers=answers
    )


def test_the_safe_ratio_follows_validation_and_not_the_test(toy):
    _, task = toy
    request = SweepRequest(variants=(Variant.of("aire"),), ratios=(0.1, 0.2, 0.3, 0.4), drop=2.0)
    validation, test = [0.90, 0.89, 0.88, 0.80, 0.90], [0.9, 0.1, 0.2, 0.9, 0.9]
    results = dict(
        result("aire" if ratio else "full", ratio, v, t)
        for ratio, v, t in zip(request.ratios, validation, test, strict=True)
    )
    safe = summarise(task, request, results).variants["aire"].safe
    assert (safe.ratio, safe.test) == (0.2, 0.2)


def test_seeds_are_averaged(toy):
    _, task = toy
    request = SweepRequest(variants=(Variant.of("random"),), ratios=(0.5,), seeds=2)
    results = dict(
        [result("full", 0.0, 0.9, 0.9), result("random", 0.5, 0.5, 0.2), result("random", 0.5, 0.7, 0.4, seed=1)]
    )
    point = summarise(task, request, results).variants["random"].at(0.5)
    assert (point.validation, point.test) == pytest.approx((0.6, 0.3))
    assert point.sd == pytest.approx(np.std([0.2, 0.4], ddof=1))


def test_metrics_as_they_are_shown(toy, toy_language):
    for (_, task), shown in ((toy, "12.5"), (toy_language, "0.125")):
        request = SweepRequest(variants=(Variant.of("aire"),), ratios=(0.0,))
        summary = summarise(replace(task, test=task.test), request, dict([result("full", 0.0, 0.5, 0.5)]))
        assert summary.text(0.125) == shown


@pytest.mark.parametrize("name", [model.name for model in ZOO["mini"]])
def test_a_kept_summary_is_what_its_cells_give(toy, toy_language, name):
    """The data of docs/results, written by earlier versions."""
    folder = RESULTS / name
    kept = (folder / "summary.json").read_text()
    summary = Summary.from_dict(json.loads(kept))
    assert json.dumps(summary.to_dict(), indent=1) + "\n" == kept
    _, task = toy if summary.accuracy else toy_language
    many = Split(np.zeros((summary.examples, 2)), np.zeros((summary.examples, *task.test.y.shape[1:]), int))
    model = next(model for model in ZOO["mini"] if model.name == name)
    again = summarise(
        replace(task, name=summary.task, test=many), sweep_request(model, "mini"), read_cells(folder / "cells.jsonl")
    )
    assert (
        replace(again, chance=summary.chance).to_dict() == summary.to_dict()
    )  # chance is about the task's own answers


def test_chance_is_what_a_model_reaches_that_does_not_look(toy, toy_language):
    _, task = toy
    ones = replace(task, test=Split(task.test.x, np.array([2] * 50 + [1] * 20)))
    assert chance(ones, 70) == pytest.approx(5 / 7)
    assert chance(ones, 50) == 1.0
    assert chance(toy_language[1], 11) == pytest.approx(np.log2(5))


def test_summaries_in_notebooks(toy, monkeypatch):
    _, task = toy
    request = SweepRequest(variants=(Variant.of("aire"), Variant.of("last")), ratios=(0.5,))
    results = dict(
        [result("full", 0.0, 0.9, 0.9), result("aire", 0.5, 0.9, 0.8), result("last", 0.5, 0.2, 0.3)],
    )
    summary = summarise(task, request, results)
    assert repr(summary) == ("Summary(toy: full model 90.0 % on 70 examples; safe ratios: aire 50%, last 0%)")
    assert "<td>90.0</td><td><b>80.0</b></td>" in summary._repr_html_()
    assert "<td><b>90.0</b></td><td>30.0</td>" in summary._repr_html_()
    monkeypatch.setattr(summary_module, "data_frame", lambda rows: rows)
    rows = summary.to_pandas()
    assert [(row["variant"], row["ratio"], row["test"], row["safe"]) for row in rows] == [
        ("aire", 0.0, 0.9, True),
        ("aire", 0.5, 0.8, True),
        ("last", 0.0, 0.9, True),
        ("last", 0.5, 0.3, False),
    ]
    axes = new_axes()
    assert summary.plot(axes) is axes
    assert [text.get_text() for text in axes.texts[:2]] != []
