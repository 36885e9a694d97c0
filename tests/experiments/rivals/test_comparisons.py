"""Which models stand beside which rival, and what is done to them."""

from __future__ import annotations

import pytest

from aireprune import zoo
from aireprune.errors import AireError
from aireprune.experiments.rivals.comparisons import COMPARISONS, chosen


def test_models_of_the_package_stand_for_what_is_not_given():
    found = {one.name: paths for one, paths in chosen(())}
    assert list(found) == ["s5", "s5-hankel", "lru", "mamba2"]
    assert found["lru"] == ("zoo:smnist-lru",)
    assert all(zoo.locate(path).is_dir() for paths in found.values() for path in paths)
    given = {one.name: paths for one, paths in chosen(["s5-hankel=run/model", "lru=other", "lru=third"])}
    assert given["s5-hankel"] == ("run/model",)
    assert given["lru"] == ("other", "third")
    assert given["s5"] == found["s5"]
    assert [paths for _, paths in chosen(["lru=other"], only=["lru"])] == [("other",)]


@pytest.mark.parametrize(
    ("text", "mention"), [("s5", "NAME=PATH"), ("s6=run/model", "Names: s5, s5-hankel, lru, mamba2")]
)
def test_what_cannot_be_compared_is_refused(text, mention):
    with pytest.raises(AireError, match=r"compared with|is given as") as problem:
        chosen([text])
    assert mention in str(problem.value)


def test_commands_are_those_of_the_jobs():
    s5 = COMPARISONS[0]
    *_, calibrated, recovered = s5.ways(300)
    assert calibrated.command("M", 0.7) == (
        "aire prune M -o OUT --ratio 0.7 --reduce balanced --calibrate smnist --task smnist"
    )
    assert "--recover-steps 300 --task" in (recovered.command("M", 0.7) or "")
    job = recovered.job(0.7)
    assert job.recovery is not None
    assert (job.reduce, job.recovery.steps) == ("balanced", 300)
    assert calibrated.job(0.7).recovery is None
    assert len(s5.ways(0)) == len(s5.ways(300)) - 1


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda comparison: comparison.name)
def test_published_rows_have_a_figure_for_every_share(comparison):
    for row in comparison.rival.rows.values():
        assert len(row) == len(comparison.shares)
