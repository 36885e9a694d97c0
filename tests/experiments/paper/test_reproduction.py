"""Which models a table or figure is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from aireprune.errors import AireError
from aireprune.experiments.paper.models import ZOO
from aireprune.experiments.paper.reproduction import ITEMS, plan_reproduction
from aireprune.zoo import FOLDER


def planned(item, recipe="mini", only=()):
    return plan_reproduction(item, recipe, Path("zoo"), Path("docs"), only)


def test_items_and_their_models():
    assert planned("all").items == set(ITEMS)
    assert planned("all").models == ZOO["mini"]
    assert {model.family for model in planned("table1").models} == {"s5"}
    assert {model.family for model in planned("table2").models} == {"s4d", "mamba"}
    assert [model.name for model in planned("table1", only=["image-s5"]).models] == ["image-s5"]
    assert planned("table1").ablated == ()
    assert planned("ablations").ablated == ZOO["mini"]
    assert (planned("ablations").sweeps, planned("curves").sweeps) == (False, True)
    assert planned("curves").seeded == ()
    seeds = planned("seeds")
    assert (seeds.models, seeds.sweeps) == ((), False)
    assert [model.name for model in seeds.every][:4] == [
        "listops-s5",
        "listops-s5-seed1",
        "listops-s5-seed2",
        "smnist-s5-small",
    ]
    assert len(planned("seeds", only=["smnist-s5-small"]).every) == 3
    assert len(planned("all").every) == len(ZOO["mini"]) + 5


def own(*models, only=()):
    return plan_reproduction("table1", "mini", Path("nowhere"), Path("docs"), only, models)


def test_models_of_the_users_take_the_place_of_ours():
    wanted = own("listops=zoo:image-s5", "text-s5=zoo:text-s5")  # which task a checkpoint is good at is not looked at
    assert [model.name for model in wanted.models] == ["listops-s5", "text-s5"]
    assert [wanted.path(model) for model in wanted.models] == [FOLDER / "image-s5", FOLDER / "text-s5"]
    wanted = own("listops=zoo:image-s5", only=["listops-s5", "image-s5"])
    assert [wanted.find(model) for model in wanted.models] == [FOLDER / "image-s5", None]
    with pytest.raises(AireError, match=r"image-s5: it is trained on image with family='s5' and recipe='mini'"):
        wanted.path(wanted.models[1])
    for text, mention in (
        ("listops", "TASK=PATH or NAME=PATH, not 'listops'"),
        ("lm=zoo:image-s5", "no S5 model of 'lm'"),
        ("listops=nowhere", "nowhere"),
        ("listops=zoo:listops-s4d", "table1 is not about listops-s4d"),
    ):
        with pytest.raises(AireError, match=mention):
            own(text)


def test_what_there_is_not():
    with pytest.raises(AireError, match="no table or figure 'table9'"):
        planned("table9")
    with pytest.raises(AireError, match="no model chess-s5 in recipe mini"):
        planned("table1", only=["chess-s5"])
    with pytest.raises(AireError, match="no recipe 'large'"):
        planned("table1", "large")
