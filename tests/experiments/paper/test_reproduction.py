"""Which models a table or figure is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from aireprune.errors import AireError
from aireprune.experiments.paper.models import ZOO
from aireprune.experiments.paper.reproduction import ITEMS, plan_reproduction


def planned(item, recipe="mini", only=()):
    return plan_reproduction(item, recipe, Path("zoo"), Path("docs"), only)


def test_items_and_their_models():
    assert planned("all").items == set(ITEMS)
    assert planned("all").models == ZOO["mini"]
    assert {model.family for model in planned("table1").models} == {"s5"}
    assert {model.family for model in planned("table2").models} == {"s4d", "mamba"}
    assert [model.name for model in planned("table1", only=["image-s5"]).models] == ["image-s5"]
    assert planned("table1").ablated == ()
    assert [model.name for model in planned("ablations").ablated] == ["listops-s5", "pathfinder-s5", "listops-s4d"]
    assert (planned("ablations").sweeps, planned("curves").sweeps) == (False, True)


def test_what_there_is_not():
    with pytest.raises(AireError, match="no table or figure 'table9'"):
        planned("table9")
    with pytest.raises(AireError, match="no model chess-s5 in recipe mini"):
        planned("table1", only=["chess-s5"])
    with pytest.raises(AireError, match="no recipe 'large'"):
        planned("table1", "large")
