"""Which parameters have the learning rate of the state space parameters, and no weight decay."""

from __future__ import annotations

import pytest
from toys import random_tokens

from aireprune.models.create import new_model
from aireprune.training import recipes
from aireprune.training.optimizer import hold_poles, new_optimizer, parameter_groups, set_rate
from aireprune.training.recipes import Recipe


@pytest.mark.parametrize("family", recipes.FAMILIES)
def test_every_parameter_is_in_one_group(family):
    model = new_model(recipes.model_config(random_tokens("classes"), family, "mini"), 0)
    ssm, rest = parameter_groups(model, Recipe(lr=0.1, ssm_lr=0.01, weight_decay=0.5))
    named = {id(p): name for name, p in model.named_parameters()}
    assert sorted(named) == sorted(id(p) for group in (ssm, rest) for p in group["params"])
    poles = {"s5": "Lambda_re", "s4d": "log_A_real", "lru": "nu_log", "mamba": "A_log", "mamba2": "A_log"}[family]
    names = [named[id(p)] for p in ssm["params"]]
    assert any(name.endswith(poles) for name in names)
    assert not any("decoder" in name for name in names)
    assert (ssm["lr"], ssm["weight_decay"], rest["lr"], rest["weight_decay"]) == (0.01, 0.0, 0.1, 0.5)


def test_rates_follow_their_peaks():
    model = new_model(recipes.model_config(random_tokens("classes"), "s5", "mini"), 0)
    optimizer = new_optimizer(model, Recipe(lr=0.1, ssm_lr=0.01))
    for share in (0.5, 0.25):
        set_rate(optimizer, share)
        assert [group["lr"] for group in optimizer.param_groups] == [0.01 * share, 0.1 * share]


def test_poles_of_s5_stay_stable():
    model = new_model(recipes.model_config(random_tokens("classes"), "s5", "mini"), 0)
    poles = model.get_parameter("layers.1.seq.Lambda_re")
    before = poles.detach().clone()
    poles.data[3] = 0.5
    hold_poles(model)
    assert poles[3].item() == pytest.approx(-1e-4)
    assert (poles.detach() == before).sum() == len(before) - 1
