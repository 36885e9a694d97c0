"""Plans as people look at them: notebooks, data frames, pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

import aireprune
from aireprune import embedded
from aireprune.drawing import AIRE, FAINT, new_axes
from aireprune.pruning import views


@pytest.fixture(scope="module")
def plan():
    return aireprune.prune(embedded.MODEL, method="aire", reduce="truncate", ratio=0.5).plan


def test_rows_hold_the_plan_and_its_certificate(plan):
    for row, layer, proved in zip(views.rows(plan), plan.layers, plan.certificate, strict=True):
        assert row["layer"] == layer.name
        assert (row["states"], row["kept"]) == (32, len(layer.kept))
        assert (row["relative_h2"], row["bound"]) == (proved["relative_h2"], proved["bound"])
    assert "bound" not in views.rows(replace(plan, certificate=None))[0]


def test_data_frame(plan):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: no data frame was made")
    frame = plan.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["kept"].sum() == plan.kept


def test_names_from_files_are_only_text(plan):
    name = "</td><script>alert(1)</script>\x1b"
    hostile = replace(plan, layers=tuple(replace(layer, name=name) for layer in plan.layers), certificate=None)
    html = hostile._repr_html_()
    cells = [
        cell.text for cell in ET.fromstring(f"<div>{html}</div>").iter("td") if cell.text and "script" in cell.text
    ]
    assert cells == [r"</td><script>alert(1)</script>\x1b"] * 4


def test_bars_are_the_counts(plan):
    axes = new_axes()
    assert plan.plot(axes) is axes
    widths = {colour: [] for colour in (FAINT, AIRE)}
    for container, colour in zip(axes.containers, (FAINT, AIRE), strict=True):
        widths[colour] = [bar.get_width() for bar in container]
    assert widths[FAINT] == [32] * 4
    assert widths[AIRE] == [len(layer.kept) for layer in plan.layers]
