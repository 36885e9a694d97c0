"""What a sweep is asked to do."""

from __future__ import annotations

import pytest

from aireprune.errors import AireError
from aireprune.experiments.request import SweepRequest, parse_ratios
from aireprune.experiments.variants import Variant

AIRE, RANDOM = Variant.of("aire"), Variant.of("random")


def test_ratios_as_people_write_them():
    assert parse_ratios("0:1:0.1")[-1] == 1.0
    assert len(parse_ratios("0:1:0.1")) == 11
    assert parse_ratios("0.5,0.2") == (0.2, 0.5)
    for bad in ("half", "0:1", "0:1:0"):
        with pytest.raises(AireError, match="not FROM:TO:STEP"):
            parse_ratios(bad)


def test_what_does_not_fit_is_said():
    with pytest.raises(AireError, match="0 to 1"):
        SweepRequest(variants=(AIRE,), ratios=(1.5,))
    with pytest.raises(AireError, match="listed twice: aire, aire"):
        SweepRequest(variants=(AIRE, AIRE), ratios=(0.5,))


def test_cells_go_ratio_by_ratio_and_only_random_has_seeds():
    request = SweepRequest(variants=(AIRE, RANDOM), ratios=(0.5, 0.25), seeds=2)
    assert request.ratios == (0.0, 0.25, 0.5)
    assert [cell.key for cell in request.cells()] == [
        (name, ratio, seed) for ratio in (0.25, 0.5) for name, seed in (("aire", 0), ("random", 0), ("random", 1))
    ]
