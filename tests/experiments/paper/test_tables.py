"""Tables of the page: ours beside the paper's, for models that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from aireprune import zoo
from aireprune.experiments.paper.reproduction import plan_reproduction
from aireprune.experiments.paper.tables import averages, matched_table, safe_table

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def kept():
    """The models and summaries of docs/results."""
    wanted = plan_reproduction("all", "mini", zoo.FOLDER, ROOT / "docs")
    return wanted, {model.name: wanted.summary(model) for model in wanted.models}


def cells(text):
    return {
        row.split(" | ")[0].strip("| "): row.strip("| ").split(" | ")[1:] for row in text.splitlines() if "|" in row
    }


def test_safe_ratios_are_those_of_the_summaries(kept):
    wanted, summaries = kept
    found = cells(safe_table("table1", "s5", wanted, summaries))
    for name, row in found.items():
        if name in summaries["image-s5"].variants:
            ratios = [summaries[model.name].variants[name].safe_ratio for model in wanted.of_family("s5")]
            assert [cell.split(":")[0] for cell in row] == [f"{ratio:.0%}" for ratio in ratios]
    assert found["*paper, S5 at its scale: aire*"][1] == "80%: 88.24"
    assert safe_table("table1", "s5", plan_reproduction("table2", "mini", zoo.FOLDER, ROOT / "docs"), {}) == ""


def test_every_variant_has_a_row_and_aire_no_mark(kept):
    found = cells(matched_table(*kept))
    assert set(kept[1]["lm-mamba"].variants) | set(kept[1]["image-s5"].variants) < set(found)
    assert not any("▲" in cell or "▽" in cell for cell in found["aire"])


def test_averages_leave_language_models_out(kept):
    text = averages(*kept)
    assert "### S5, 5 models" in text
    assert "### Mamba, 1 model\n" in text
