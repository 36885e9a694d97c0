"""The page of results: made from kept data, with the paper's figures beside ours, and the words a person wrote stay."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

import aireprune
from aireprune.cli.reproduce import reproduce
from aireprune.errors import AireError
from aireprune.experiments import sweep
from aireprune.experiments.paper import models, page, paper, run
from aireprune.experiments.paper.models import Entry
from aireprune.experiments.sweep import Variant
from aireprune.models.create import new_model


def test_paper_figures():
    assert paper.reported("s5", "aire", "text") == (80, 88.24)
    assert paper.reported("s4d", "aire", "retrieval") is None
    assert paper.reported("mamba", "last", "image") == (45, 69.13)
    ratios = [ratio for ratio, _ in paper.TABLE1["aire"].values()]
    assert np.mean(ratios[:6]) == pytest.approx(60.8, abs=0.05)  # the average over the six LRA tasks


@pytest.fixture
def small_zoo(toy, tmp_path, monkeypatch):
    """Two tiny models under names of the zoo, few ratios and variants, and the toy task in place of theirs."""
    model, task = toy
    variants = (*(Variant.of(name) for name in ("random", "last", "aire")), Variant.of("aire", "balanced", True))
    entries = (Entry("image", "s5"), Entry("text", "s5"))
    for module in (models, run, page):
        monkeypatch.setattr(module, "ABLATED", ("image-s5",))
    monkeypatch.setattr(models, "variants", lambda family: variants)
    monkeypatch.setattr(models, "ablations", lambda length: (Variant.of("aire"), Variant.of("aire", epsilon=0.01)))
    monkeypatch.setattr(models, "RATIOS", (0.0, 0.3, 0.5, 0.7))
    monkeypatch.setattr(models, "ABLATION_RATIOS", (0.0, 0.5))
    for module in (models, run):
        monkeypatch.setattr(module, "ENTRIES", {"mini": entries})
    monkeypatch.setattr(run, "load_task", lambda name: replace(task, name=name))
    for entry, seed in zip(entries, (0, 1), strict=True):
        aireprune.save(new_model(model.config, seed).eval(), tmp_path / "zoo" / entry.name)
    training = {"task": "image", "test": 0.5, "metric": "accuracy", "seconds": 120.0, "history": [{"validation": 0.4}]}
    training["recipe"] = {"epochs": 3, "seed": 0}
    (tmp_path / "zoo" / "image-s5" / "training.json").write_text(json.dumps(training))
    return tmp_path


def test_the_page_holds_every_table_and_picture(small_zoo, monkeypatch):
    out = small_zoo / "docs"
    reproduce("all", "mini", small_zoo / "zoo", out, "", True)
    text = (out / "results.md").read_text()
    for title in (
        "## Models",
        "## Table 1",
        "## All variants at the same ratio",
        "## Averages",
        "## Table 3",
        "## Ablations",
    ):
        assert title in text
    assert "80%: 88.24" in text  # the paper's Text, beside ours
    assert "| image-s5 | image | 3 | 40.00 % | 50.00 % | 2 min |" in text
    for name in ("image-s5", "text-s5"):
        for kind in ("curves", "profile"):
            assert f"results/{name}/{kind}.svg" in text
            ET.parse(out / "results" / name / f"{kind}.svg")
    assert "aire epsilon=0.01" in text
    written = text.replace(f"{page.BEGIN}\n", f"{page.BEGIN}\n## Reading\n\nAs expected.")
    (out / "results.md").write_text(written)
    monkeypatch.setattr(sweep, "judge", lambda *a: pytest.fail("a cell was done again"))
    monkeypatch.setattr(run, "speed", lambda *a: pytest.fail("a model was timed again"))
    reproduce("all", "mini", small_zoo / "zoo", out, "", True)
    assert (out / "results.md").read_text() == written


def test_what_is_missing_is_said_before_the_work(small_zoo):
    with pytest.raises(AireError, match=r"aire train image --family s5 --recipe mini"):
        reproduce("table1", "mini", small_zoo / "nowhere", small_zoo / "docs", "", True)
    with pytest.raises(AireError, match="no table or figure 'table9'"):
        reproduce("table9", "mini", small_zoo / "zoo", small_zoo / "docs", "", True)
    with pytest.raises(AireError, match="no model chess-s5"):
        reproduce("table1", "mini", small_zoo / "zoo", small_zoo / "docs", "chess-s5", True)


def test_several_gather_data_and_one_writes_the_page(small_zoo):
    out = small_zoo / "docs"
    for name in ("image-s5", "text-s5"):
        reproduce("table1", "mini", small_zoo / "zoo", out, name, False)
    assert not (out / "results.md").exists()
    assert (out / "results" / "text-s5" / "summary.json").is_file()
