"""Pictures of a sweep show its numbers."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from aireprune.drawing import AIRE, FAINT, new_axes
from aireprune.errors import AireError
from aireprune.experiments.figures import (
    curves,
    draw_curves,
    draw_profile,
    draw_shares,
    draw_sweep,
    emphasised,
    profile,
)
from aireprune.experiments.request import SweepRequest
from aireprune.experiments.sweep import run_sweep
from aireprune.experiments.variants import Variant

REQUEST = SweepRequest(variants=(Variant.of("aire"), Variant.of("aire", "refit")), ratios=(0.25, 0.5))
MANY = ("lamp", "random", "last", "aire", "global-hinf", "uniform-hinf", "global-magnitude", "uniform-magnitude")


def drawn(axes, colour):
    """The lines of a colour that are not single points."""
    return [line.get_xydata() for line in axes.get_lines() if line.get_color() == colour and len(line.get_xdata()) > 1]


def test_the_lines_are_the_numbers(toy, tmp_path):
    model, task = toy
    summary = run_sweep(model, task, REQUEST, tmp_path)
    axes = new_axes()
    draw_curves(axes, summary)
    expected = [(100 * point.ratio, 100 * point.test) for point in summary.variants["aire"].points]
    (aire,) = drawn(axes, AIRE)
    np.testing.assert_allclose(aire, expected)
    rings = [line.get_xdata()[0] for line in axes.get_lines() if line.get_marker() == "o"]
    assert sorted(rings) == sorted(100 * curve.safe_ratio for curve in summary.variants.values())
    names = [text.get_text() for text in axes.texts]
    assert {"aire", "aire+refit", "always one answer"} <= set(names)
    low, high = axes.get_ylim()
    assert low <= 100 * summary.chance <= high
    axes = new_axes()
    draw_profile(axes, summary, "aire")
    shares = [line.get_ydata()[-1] for line in axes.get_lines() if line.get_marker() == "o"]
    kept = summary.variants["aire"].points[-1].layers
    np.testing.assert_allclose(shares, [100 * layer.kept / layer.states for layer in kept])


def test_files_of_a_sweep(toy, tmp_path):
    model, task = toy
    summary = run_sweep(model, task, REQUEST, tmp_path)
    draw_sweep(summary, tmp_path)
    pictures = {path.name for path in tmp_path.glob("*.svg")}
    assert pictures == {"curves.svg", "profile-aire.svg", "profile-aire+refit.svg"}
    for name in pictures:
        ET.parse(tmp_path / name)


def test_six_lines_are_named_and_the_others_are_light(toy, tmp_path):
    model, task = toy
    variants = tuple(map(Variant.of, MANY))
    summary = run_sweep(model, task, SweepRequest(variants=variants, ratios=(0.5,), seeds=1), tmp_path)
    named = emphasised(summary)
    assert named[:4] == ["aire", "last", "global-hinf", "uniform-hinf"]
    assert len(named) == 6
    axes = new_axes()
    draw_curves(axes, summary)
    assert len(drawn(axes, FAINT)) == 2
    assert "dotted: safe ratio of aire on the paper" in curves(summary, "t", (80.0, 0.64))


def test_many_layers_become_a_map():
    axes = new_axes()
    draw_shares(axes, [0.0, 50.0, 90.0], np.full((64, 3), 50.0), [f"layer {i}" for i in range(64)])
    assert not axes.get_lines()
    assert axes.collections[0].get_array().size == 64 * 3


def test_language_models_have_an_axis_that_fits(toy_language, tmp_path):
    model, task = toy_language
    summary = run_sweep(model, task, REQUEST, tmp_path)
    assert "bits per byte (test)" in curves(summary, "t")
    axes = new_axes()
    draw_curves(axes, summary)
    assert axes.get_yscale() == "linear"
    aire = summary.variants["aire"]
    ruined = replace(aire, points=(*aire.points[:-1], replace(aire.points[-1], test=40.0, interval=(39.0, 41.0))))
    axes = new_axes()
    draw_curves(axes, replace(summary, variants={**summary.variants, "aire": ruined}))
    assert axes.get_yscale() == "log"
    assert axes.get_ylim()[1] > 41


def test_without_matplotlib_there_is_a_sentence(toy, tmp_path, monkeypatch):
    model, task = toy
    summary = run_sweep(model, task, REQUEST, tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(AireError, match="A figure needs matplotlib"):
        profile(summary, "aire", "t")
