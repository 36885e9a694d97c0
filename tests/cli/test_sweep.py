"""aire sweep, on a toy model and a task from a file."""

from __future__ import annotations

import json

import pytest
import toy_experiments


@pytest.fixture
def arguments(tmp_path):
    """A sweep of two variants at two ratios."""
    return (*toy_experiments.sweep_arguments(tmp_path), "-o", tmp_path / "sweep")


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
