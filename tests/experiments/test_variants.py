"""Variants: named after what they differ in, combined where that is possible."""

from __future__ import annotations

import pytest

from aireprune.errors import AireError
from aireprune.experiments.variants import Variant, make_variants


def test_names():
    assert Variant.of("last").name == "last"
    assert Variant.of("aire", "refit").name == "aire+refit"
    assert Variant.of("aire", "balanced", True).name == "balanced+calibrated"
    assert Variant.of("aire", epsilon=1e-6, horizon=96).name == "aire epsilon=1e-06 horizon=96"


def test_what_is_written_down():
    plain = {"name": "aire", "method": "aire", "reduce": "truncate", "calibrated": False, "options": {}}
    assert Variant.of("aire").to_dict() == plain
    assert Variant.of("aire", epsilon=0.01, horizon=9).to_dict()["options"] == {"epsilon": 0.01, "horizon": 9}


def test_combinations_as_people_write_them():
    names = [v.name for v in make_variants(("aire", "last"), ("truncate", "balanced"), True)]
    assert names == ["aire", "aire+calibrated", "balanced", "balanced+calibrated", "last"]
    heads = make_variants(("aire", "last"), ("truncate", "projected", "fitted"), False)
    assert [v.name for v in heads] == ["aire", "projected", "fitted", "last"]
    assert [v.calibrated for v in heads] == [False, True, True, False]
    with pytest.raises(AireError, match="goes with method aire"):
        make_variants(("last",), ("balanced",), False)
    with pytest.raises(AireError, match="no reduction 'halve'"):
        make_variants(("aire",), ("halve",), False)
