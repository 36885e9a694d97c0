"""Training: an interrupted run ends where an uninterrupted one does, and it learns."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from toys import CONFIG, brighter_half, random_tokens

import aireprune
from aireprune.errors import AireError
from aireprune.tasks.evaluate import evaluate
from aireprune.training import recipes
from aireprune.training.loop import Conditions, train_model
from aireprune.training.recipes import ModelChanges, Recipe


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run of three epochs of five steps, and its folder."""
    folder = tmp_path_factory.mktemp("straight")
    return train_model(brighter_half(), CONFIG, Recipe(epochs=3, batch=20), folder), folder


def validations(folder):
    return [epoch["validation"] for epoch in json.loads((folder / "training.json").read_text())["history"]]


@pytest.mark.parametrize("steps", [7, 10])  # within an epoch, and at the end of one
def test_a_resumed_run_ends_in_the_same_weights(tmp_path, straight, steps):
    task, recipe = brighter_half(), Recipe(epochs=3, batch=20)
    train_model(task, CONFIG, recipe, tmp_path, Conditions(stop_after=steps))
    assert not (tmp_path / "training.json").exists()
    resumed = train_model(task, CONFIG, recipe, tmp_path)
    model, folder = straight
    for (name, a), b in zip(model.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert validations(tmp_path) == validations(folder)
    assert len(validations(folder)) == 3


class Interrupted(Exception):
    pass


def test_an_interruption_before_the_validation_does_not_lose_it(tmp_path, straight):
    def stop(progress):
        if progress.step == 10:
            raise Interrupted

    task, recipe = brighter_half(), Recipe(epochs=3, batch=20)
    with pytest.raises(Interrupted):
        train_model(task, CONFIG, recipe, tmp_path, Conditions(save_every=1), stop)
    train_model(task, CONFIG, recipe, tmp_path)
    assert validations(tmp_path) == validations(straight[1])


def test_another_seed_is_another_run(tmp_path, straight):
    other = train_model(brighter_half(), CONFIG, Recipe(epochs=3, batch=20, seed=1), tmp_path)
    assert not torch.equal(other.encoder.weight, straight[0].encoder.weight)


def test_other_settings_do_not_resume(tmp_path):
    task = brighter_half()
    train_model(task, CONFIG, Recipe(epochs=1, batch=20), tmp_path, Conditions(stop_after=1))
    with pytest.raises(AireError, match="other settings"):
        train_model(task, CONFIG, Recipe(epochs=2, batch=20), tmp_path)


def test_it_learns(tmp_path):
    task = brighter_half(400)
    model = train_model(task, CONFIG, Recipe(epochs=12, batch=20, lr=1e-2), tmp_path)
    assert evaluate(model, task, task.test) > 0.9


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path):
    with pytest.raises(AireError, match=r"The loss is nan at step 1: .*\(lr=, ssm_lr=\)"):
        train_model(brighter_half(), CONFIG, Recipe(epochs=1, batch=20, lr=1e38, warmup=0), tmp_path)


@pytest.mark.parametrize("family", recipes.FAMILIES)
@pytest.mark.parametrize("kind", ["classes", "language", "pairs"])
def test_every_family_takes_every_kind_of_task(tmp_path, family, kind):
    task = random_tokens(kind)
    config = recipes.model_config(
        task, family, "mini", ModelChanges(layers=1, features=8, states=8, blocks=1, dropout=0.0)
    )
    model = train_model(task, config, Recipe(epochs=2, batch=8, seed=1), tmp_path / "run")
    aireprune.save(model, tmp_path / "model")
    again = aireprune.load(tmp_path / "model")
    assert evaluate(again, task, task.test) == evaluate(model, task, task.test)
    small = aireprune.prune(model, ratio=0.5)
    assert np.isfinite(evaluate(small, task, task.test))


def test_two_runs_do_not_share_a_folder(tmp_path):
    task, recipe, refused = brighter_half(), Recipe(epochs=1, batch=50), []

    def second(progress):
        with pytest.raises(AireError, match=f"Another training is running in {tmp_path}"):
            train_model(task, CONFIG, recipe, tmp_path)
        refused.append(progress.step)

    train_model(task, CONFIG, recipe, tmp_path, report=second)
    assert refused == [1, 2, 2]


def test_varied_examples_resume_to_the_same_weights(tmp_path):
    task = replace(brighter_half(), augment=lambda rng, x: x + rng.integers(0, 9, x.shape).astype(x.dtype))
    recipe = Recipe(epochs=2, batch=20, augment=True)
    whole = train_model(task, CONFIG, recipe, tmp_path / "whole")
    train_model(task, CONFIG, recipe, tmp_path / "parts", Conditions(stop_after=7))
    parts = train_model(task, CONFIG, recipe, tmp_path / "parts")
    plain = train_model(task, CONFIG, replace(recipe, augment=False), tmp_path / "plain")
    assert torch.equal(whole.encoder.weight, parts.encoder.weight)
    assert not torch.equal(whole.encoder.weight, plain.encoder.weight)


def test_examples_without_variations_are_not_varied(tmp_path):
    with pytest.raises(AireError, match="no variations of toy examples"):
        train_model(brighter_half(), CONFIG, Recipe(epochs=1, batch=20, augment=True), tmp_path)
