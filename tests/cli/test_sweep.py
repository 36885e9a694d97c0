"""aire sweep, on a toy model and a task from a file."""

from __future__ import annotations

import json

import numpy as np
import pytest
import toy_experiments

import aireprune


@pytest.fixture
def arguments(tmp_path):
    """A sweep of two variants at two ratios."""
    model, task = toy_experiments.classification()
    aireprune.save(model, tmp_path / "model")
    arrays = {}
    for part in ("train", "validation", "test"):
        split = getattr(task, part)
        arrays |= {f"{part}_x": task.inputs(split.x), f"{part}_y": split.y}
    np.savez(tmp_path / "task.npz", **arrays)
    choices = ("--methods", "aire,random", "--ratios", "0.25,0.5", "--seeds", 2, "--examples", 40)
    return (tmp_path / "model", "--task", tmp_path / "task.npz", "-o", tmp_path / "sweep", *choices)


def test_tables_files_and_json(aire, arguments, tmp_path):
    code, out, err = aire("sweep", *arguments)
    assert code == 0, err
    assert "Accuracy (%) on 40 test examples" in out
    assert "Largest ratio that costs at most 1 point on validation" in out
    assert "±" in next(line for line in out.splitlines() if line.startswith("random"))
    names = {path.name for path in (tmp_path / "sweep").iterdir()}
    assert names == {
        "sweep.json",
        "cells.jsonl",
        "summary.json",
        "report.html",
        "curves.svg",
        "profile-aire.svg",
        "profile-random.svg",
    }
    code, out, _ = aire("sweep", *arguments, "--json")
    assert code == 0
    summary = json.loads((tmp_path / "sweep" / "summary.json").read_text())
    assert json.loads(out) == {"schema": 1, **summary}


def test_bad_arguments(aire, arguments):
    for more, mention in (
        (("--ratios", "half"), "not FROM:TO:STEP"),
        (("--methods", "magic"), "no method 'magic'"),
        (("--reduce", "halve"), "no reduction 'halve'"),
    ):
        code, _, err = aire("sweep", *arguments, *more)
        assert code == 1
        assert mention in err
