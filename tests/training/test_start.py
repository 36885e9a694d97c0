"""Runs that begin with the weights of a model that was trained before."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from toys import CONFIG, brighter_half

import aireprune
from aireprune.errors import AireError
from aireprune.models.create import new_model
from aireprune.training.loop import Conditions, train_model
from aireprune.training.recipes import Recipe


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model's folder."""
    folder = tmp_path_factory.mktemp("trained") / "model"
    aireprune.save(new_model(CONFIG, seed=5), folder)
    return folder


def begun(folder, start, config=CONFIG, steps=0, **recipe):
    """A run after so many steps."""
    return train_model(
        brighter_half(), config, Recipe(epochs=1, batch=20, start=start, **recipe), folder, Conditions(stop_after=steps)
    )


def test_a_run_begins_with_the_weights(tmp_path, trained):
    model = begun(tmp_path / "run", str(trained), replace(CONFIG, dropout=0.3), seed=1)
    for name, tensor in new_model(CONFIG, seed=5).state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name
    assert model.config.dropout == 0.3


def test_its_story_names_them_and_other_weights_do_not_resume(tmp_path, trained):
    recipe = Recipe(epochs=1, batch=20, start=str(trained))
    train_model(brighter_half(), CONFIG, recipe, tmp_path / "run")
    story = json.loads((tmp_path / "run" / "training.json").read_text())
    assert story["recipe"]["start"] == str(trained)
    assert len(story["start"]) == 16
    other = tmp_path / "other"
    aireprune.save(new_model(CONFIG, seed=6), other)
    begun(tmp_path / "changing", str(other), steps=1)
    aireprune.save(new_model(CONFIG, seed=7), other, overwrite=True)
    with pytest.raises(AireError, match="other settings"):
        begun(tmp_path / "changing", str(other))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 16}, "has n 8, the run's model 16"),
        ({"prenorm": False}, "has prenorm True, the run's model False"),
    ],
)
def test_another_model_is_refused(tmp_path, trained, changes, message):
    with pytest.raises(AireError, match=message):
        begun(tmp_path / "run", str(trained), replace(CONFIG, **changes))


def test_a_folder_that_is_none_of_ours_is_refused(tmp_path):
    with pytest.raises(AireError):
        begun(tmp_path / "run", str(tmp_path / "missing"))
