"""The page of results: made from kept data, with the paper's figures beside ours, and the words a person wrote stay."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib
import pytest

from aireprune import zoo
from aireprune.experiments.paper import markdown, models
from aireprune.experiments.paper.page import render
from aireprune.experiments.paper.reproduction import plan_reproduction
from aireprune.experiments.paper.run import gather
from aireprune.experiments.paper.speed import time_models

ROOT = Path(__file__).parents[3]


def test_the_page_in_docs_is_what_the_data_in_docs_gives(tmp_path):
    shutil.copytree(ROOT / "docs" / "results", tmp_path / "results")
    shutil.copy(ROOT / "docs" / "results.md", tmp_path)  # with its reading
    render(plan_reproduction("all", "mini", zoo.FOLDER, tmp_path))
    assert (tmp_path / "results.md").read_text() == (ROOT / "docs" / "results.md").read_text()
    if (
        f"Matplotlib v{matplotlib.__version__},"
        not in (ROOT / "docs" / "results" / "text-s5" / "curves.svg").read_text()
    ):
        pytest.skip("the pictures were drawn by another version of matplotlib: only the page was compared")
    for kept in (ROOT / "docs" / "results").rglob("*.svg"):
        assert (tmp_path / kept.relative_to(ROOT / "docs")).read_bytes() == kept.read_bytes()


def test_the_page_holds_every_table_and_picture(small_zoo, tmp_path, monkeypatch):
    monkeypatch.setattr(models, "RATIOS", (0.0, 0.3, 0.5, 0.7))
    wanted = plan_reproduction("all", "mini", small_zoo, tmp_path / "docs")
    gather(wanted, lambda *step: None)
    time_models(wanted, lambda *step: None)
    text = render(wanted).read_text()
    for title in (
        "## Models",
        "## Table 1",
        "## All variants at the same ratio",
        "## Averages",
        "## Table 3",
        "## Ablations",
        "### text-s5, 2 seeds",
    ):
        assert title in text
    assert "80%: 88.24" in text  # the paper's Text, beside ours
    assert "| image-s5 | image | 3 | 40.00 % | 50.00 % | 2 min |" in text
    for name in ("image-s5", "text-s5"):
        for kind in ("curves", "profile"):
            assert f"results/{name}/{kind}.svg" in text
            ET.parse(wanted.data / name / f"{kind}.svg")
    assert "aire epsilon=0.01" in text
    written = text.replace(f"{markdown.BEGIN}\n", f"{markdown.BEGIN}\n## Reading\n\nAs expected.")
    wanted.page.write_text(written)
    assert render(wanted).read_text() == written
