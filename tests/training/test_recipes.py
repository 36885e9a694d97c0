"""Recipes: the paper's hyperparameters, and what a user changes in them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from toys import random_tokens

from aireprune.errors import AireError
from aireprune.training import recipes
from aireprune.training.recipes import ModelChanges, Recipe, RecipeChanges


def test_the_papers_hyperparameters():
    text = recipes.training_recipe("text", "s5", "paper")
    assert (text.lr, text.ssm_lr, text.batch, text.epochs, text.weight_decay) == (4e-3, 1e-3, 50, 35, 0.07)
    config = recipes.model_config(replace(random_tokens("classes"), name="pathx"), "s5", "paper")
    assert (config.layers, config.h, config.n, config.blocks, config.dropout) == (6, 128, 256, 16, 0.0)
    assert (config.dt_min, config.dt_max, config.batchnorm, config.prenorm) == (0.001, 0.1, True, True)


def test_what_is_changed_and_what_is_not():
    changed = recipes.training_recipe("text", "s5", "paper", RecipeChanges(epochs=3, seed=7))
    assert changed == replace(recipes.training_recipe("text", "s5", "paper"), epochs=3, seed=7)
    task = random_tokens("classes")
    for family in recipes.FAMILIES:
        listed = recipes.model_config(task, family, "mini")
        config = recipes.model_config(task, family, "mini", ModelChanges(layers=2, dropout=0.5))
        assert config == replace(listed, layers=2, dropout=0.5)


def test_sizes_by_family():
    task, language = random_tokens("classes"), random_tokens("language")
    changes = ModelChanges(features=24, states=6)
    for family in ("s5", "s4d", "lru"):
        config = recipes.model_config(task, family, "mini", changes)
        assert (config.h, config.n) == (24, 6)
    for family in ("mamba", "mamba2"):
        config = recipes.model_config(task, family, "mini", changes)
        assert (config.d_model, config.d_state) == (24, 6)
        assert [recipes.model_config(t, family, "mini").d_model for t in (task, language)] == [32, 64]
    assert [recipes.model_config(task, "mamba2", name).d_state for name in ("mini", "paper")] == [64, 128]
    assert [recipes.model_config(task, "s4d", name).n for name in ("mini", "paper")] == [32, 64]


def test_digits_by_family():
    """What a family trains otherwise than the table says holds for its model and for its recipe."""
    task = replace(random_tokens("classes"), name="smnist")
    lru = recipes.model_config(task, "lru", "mini")
    assert (lru.layers, lru.h, lru.n) == (2, 32, 256)
    assert recipes.training_recipe("smnist", "lru", "mini").batch == 16
    assert recipes.model_config(task, "s5", "mini").layers == 4
    assert recipes.model_config(task, "lru", "paper").n == 128


def test_the_task_of_a_recipe():
    assert recipes.task_name("text", "mini") == "text-mini"
    assert recipes.task_name("image", "mini") == "image"
    assert recipes.task_name("text", "paper") == "text"
    assert recipes.base_task("speech-8k") == "speech"


def test_what_there_is_not():
    with pytest.raises(AireError, match="no recipe for 'chess'"):
        recipes.task_name("chess", "mini")
    with pytest.raises(AireError, match=r"no recipe 'large'\. Recipes: mini, paper"):
        recipes.check_name("large")
    with pytest.raises(AireError, match=r"no model family 'gru' to train\. Did you mean lru\? Families: s5, s4d,"):
        recipes.model_config(random_tokens("classes"), "gru", "mini")
    with pytest.raises(AireError, match="expected one of float32, bf16"):
        Recipe(precision="fp8")


def test_the_rate_warms_up_and_falls_to_zero():
    recipe = Recipe(warmup=0.1)
    rates = [recipe.rate(step, 100) for step in range(101)]
    assert rates[:10] == pytest.approx([0.1 * step for step in range(1, 11)])
    assert rates[10] == 1
    assert all(a > b for a, b in pairwise(rates[10:]))
    assert rates[100] == pytest.approx(0)
