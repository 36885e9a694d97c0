"""The data behind the page: gathered once, by several if need be."""

from __future__ import annotations

import pytest

from aireprune.experiments.judging import Judge
from aireprune.experiments.paper.reproduction import plan_reproduction
from aireprune.experiments.paper.run import gather


def test_sweeps_and_ablations_are_done_once(small_zoo, tmp_path, monkeypatch):
    steps = []
    wanted = plan_reproduction("all", "mini", small_zoo, tmp_path / "docs")
    gather(wanted, lambda what, done, total: steps.append((what, done, total)))
    found = {str(path.relative_to(wanted.data)) for path in wanted.data.rglob("summary.json")}
    names = ("image-s5", "text-s5", "ablations/image-s5", "ablations/text-s5", "seeds/text-s5", "seeds/text-s5-seed1")
    assert found == {f"{name}/summary.json" for name in names}
    assert steps[0] == ("image-s5: random at 50%", 1, 3 + 3)
    assert ("image-s5 ablations: aire epsilon=0.01 at 50%", 2, 2) in steps
    monkeypatch.setattr(Judge, "__call__", lambda *a: pytest.fail("a cell was done again"))
    gather(wanted, lambda *step: None)


def test_several_gather_the_data(small_zoo, tmp_path):
    for name in ("image-s5", "text-s5"):
        gather(plan_reproduction("table1", "mini", small_zoo, tmp_path / "docs", [name]), lambda *step: None)
    both = plan_reproduction("table1", "mini", small_zoo, tmp_path / "docs")
    assert [both.summary(model).task for model in both.models] == ["image", "text-mini"]
