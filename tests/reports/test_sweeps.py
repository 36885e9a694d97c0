"""A sweep as a page shows it: the numbers of its summary."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from aireprune.errors import AireError
from aireprune.experiments.summary import Summary
from aireprune.reports.facts import sweep_facts, verdict_of_sweep
from aireprune.reports.sweeps import read_sweep, view_sweep

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_points_are_those_of_the_summary():
    sweep = read_sweep(RESULTS / "text-s5")
    view, summary = view_sweep(sweep, "s5"), Summary.load(RESULTS / "text-s5" / "summary.json")
    assert view.curves[0].name == "aire"
    assert sum(curve.emphasised for curve in view.curves) == 6
    for curve in view.curves:
        expected = summary.variants[curve.name]
        assert [100 * point.test for point in expected.points] == [point.test for point in curve.points]
        assert curve.safe == expected.safe_ratio
        assert curve.points[-1].kept == tuple(layer.kept / layer.states for layer in expected.points[-1].layers)
    assert view.reported == pytest.approx((80, 0.64))
    assert view_sweep(sweep, None).reported is None
    assert verdict_of_sweep(view) == (
        "On text-mini, aire may remove 70 % of the states, balanced+calibrated 90 %, within 2 points on validation data. "
        "With balanced+calibrated it reaches 66.3 % on 1,000 test examples; the full model, 69.2 %."
    )
    assert [fact.value for fact in sweep_facts(view, dict(sweep.speeds))] == ["70 %", "64.6 %", "48,692", "1.34×"]


def test_bits_per_byte_stay_what_they_are():
    view = view_sweep(read_sweep(RESULTS / "lm-mamba"), "mamba")
    assert view.full.test == pytest.approx(2.415, abs=1e-3)
    assert view.chance == 8.0
    assert "bits per byte" in verdict_of_sweep(view)


def test_a_damaged_description_is_one_sentence(swept, tmp_path):
    shutil.copytree(swept, tmp_path / "sweep")
    told = json.loads((swept / "sweep.json").read_text())
    del told["variants"][0]["method"]
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(told))
    with pytest.raises(AireError, match="does not say what was swept"):
        read_sweep(tmp_path / "sweep")
