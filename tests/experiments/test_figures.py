"""Pictures of a sweep show its numbers."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from aireprune.experiments.figures import curves, draw_sweep, profile
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.sweep import run_sweep
from aireprune.experiments.variants import Variant

SPACE = "{http://www.w3.org/2000/svg}"
REQUEST = SweepRequest(variants=(Variant.of("aire"), Variant.of("aire", "refit")), ratios=(0.25, 0.5))


def lines(text):
    return [len(line.get("points").split()) for line in ET.fromstring(text).iter(f"{SPACE}polyline")]


def test_a_line_per_variant_and_per_layer(toy, tmp_path):
    model, task = toy
    summary = run_sweep(model, task, REQUEST, tmp_path)
    assert lines(curves(summary, "t")) == [3, 3]
    assert lines(profile(summary, "aire", "t")) == [3, 3]  # two layers
    draw_sweep(summary, tmp_path)
    pictures = {path.name for path in tmp_path.glob("*.svg")}
    assert pictures == {"curves.svg", "profile-aire.svg", "profile-aire+refit.svg"}


def test_language_models_have_a_scale_of_their_own(toy_language, tmp_path):
    model, task = toy_language
    summary = run_sweep(model, task, REQUEST, tmp_path)
    assert "bits per byte" in curves(summary, "t")
