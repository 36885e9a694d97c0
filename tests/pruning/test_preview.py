"""Plans of what would be refused, and what they are told with."""

from __future__ import annotations

import pytest
import small_models

import aireprune
from aireprune.errors import AireError, Notice


def test_a_plan_of_what_is_refused_is_made_and_applied_by_force():
    model = small_models.lopsided_s5()
    with pytest.warns(Notice, match="without inputs this plan would be refused"):
        plan = aireprune.plan(model, method="random", ratio=0.5, reduce="refit", seed=4)
    assert plan.certificate is None
    with pytest.raises(AireError, match="is refused"):
        aireprune.prune(model, plan)
    assert aireprune.prune(model, plan, force=True).plan.kept == plan.kept


def test_arguments_of_another_function_are_told_apart():
    with pytest.raises(AireError, match="force= is said when a plan is applied"):
        aireprune.plan(small_models.s5(), ratio=0.5, force=True)
