"""SVG charts: well-formed, every series drawn where its numbers are, labels apart."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from aireprune.experiments.charts import LINE_HEIGHT, line_chart

SPACE = "{http://www.w3.org/2000/svg}"


def test_points_labels_and_ticks():
    series = {
        "a <b>": ([0, 50, 100], [0.0, 50.0, 100.0]),
        "c": ([0, 50, 100], [100.0, 99.0, 99.9]),
        "d": ([0, 100], [7, 99.8]),
    }
    tree = ET.fromstring(line_chart("t & t", "x", "y", series))
    lines = [[tuple(map(float, p.split(","))) for p in e.get("points").split()] for e in tree.iter(f"{SPACE}polyline")]
    assert len(lines) == 3
    (x0, y0), (x1, y1), (x2, y2) = lines[0]
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y2 < y0  # larger values are higher up
    labels = {e.text: float(e.get("y")) for e in tree.iter(f"{SPACE}text") if e.get("fill")}
    heights = sorted(labels.values())
    assert set(labels) == {"a <b>", "c", "d"}
    assert all(b - a >= LINE_HEIGHT - 0.2 for a, b in pairwise(heights))
    ticks = [e.text for e in tree.iter(f"{SPACE}text") if re.fullmatch(r"[\d.]+", e.text or "")]
    assert "100" in ticks


def test_one_point_does_not_divide_by_zero():
    ET.fromstring(line_chart("t", "x", "y", {"a": ([1.0], [2.0])}))


def test_names_are_escaped():
    text = line_chart("a\x1b[2Jb & <c>", "x", "y", {"l\x00ne\u202e": ([0, 1], [0, 1])})
    ET.fromstring(text)
    assert r"a\x1b[2Jb &amp; &lt;c&gt;" in text
    assert r"l\x00ne\u202e" in text
