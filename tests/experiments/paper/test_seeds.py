"""Intervals over models that differ in their seed."""

from __future__ import annotations

import pytest

from aireprune.errors import AireError
from aireprune.experiments.paper.reproduction import plan_reproduction
from aireprune.experiments.paper.run import gather
from aireprune.experiments.paper.seeds import seeds_section
from aireprune.experiments.summary import Summary


def test_a_row_is_the_mean_of_the_models_and_the_difference_from_aire(small_zoo, tmp_path):
    wanted = plan_reproduction("seeds", "mini", small_zoo, tmp_path / "docs")
    gather(wanted, lambda *step: None)
    ((one, other),) = wanted.seeded
    both = [Summary.load(wanted.seed_folder(model) / "summary.json") for model in (one, other)]
    lost = {
        name: [100 * (found.full.test - found.variants[name].at(0.5).test) for found in both]
        for name in ("last", "aire")
    }
    gained = [aire - last for aire, last in zip(lost["aire"], lost["last"], strict=True)]
    mean, half = sum(gained) / 2, 12.7062 * abs(gained[0] - gained[1]) / 2
    page = seeds_section(wanted)
    assert f"| aire | {sum(lost['aire']) / 2:.1f} |" in page
    assert f"| last | {sum(lost['last']) / 2:.1f} (" in page
    assert f"{mean:+.1f} [{mean - half:+.1f}, {mean + half:+.1f}]" in page
    assert not (wanted.data / "image-s5").exists()  # nothing else is done


def test_a_recipe_without_several_seeds_has_no_such_table(tmp_path):
    assert seeds_section(plan_reproduction("all", "paper", tmp_path, tmp_path)) == ""
    with pytest.raises(AireError, match="seeds is not about recipe paper"):
        plan_reproduction("seeds", "paper", tmp_path, tmp_path)
