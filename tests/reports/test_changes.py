"""What became of linear layers: read from a pruned checkpoint, or worked out from its plan."""

from __future__ import annotations

import numpy as np
import pytest

import aireprune
from aireprune import embedded
from aireprune.certificates.audit import certify_model
from aireprune.pruning.plan import Plan
from aireprune.pruning.source import open_file, open_module
from aireprune.reports.changes import changes
from aireprune.zoo import FOLDER as ZOO


@pytest.mark.parametrize("reduce", ["truncate", "refit", "balanced"])
def test_the_plan_promises_what_the_checkpoint_holds(reduce):
    model = aireprune.load(embedded.MODEL)
    small = aireprune.prune(model, method="aire", reduce=reduce, layout="adaptive", ratio=0.5)
    source, plan = open_module(model), small.plan
    promised, stored = changes(source, plan, None), changes(source, plan, open_module(small))
    audited = certify_model(small, model).layers
    for before, after, expected in zip(promised, stored, audited, strict=True):
        assert after.certificate == expected.to_dict()
        assert before.certificate["relative_h2"] == pytest.approx(after.certificate["relative_h2"], rel=1e-3)
        assert before.certificate["hinf"] == pytest.approx(after.certificate["hinf"], rel=1e-2)


def test_selective_layers_have_none():
    source = open_file(ZOO / "lm-mamba")
    plan = aireprune.plan(ZOO / "lm-mamba", ratio=0.5, reduce="truncate")
    assert changes(source, plan, None) == [None] * 4


def test_a_calibrated_plan_proves_nothing(pruned):
    plan = Plan.load(pruned / "plan.json")
    found = changes(open_file(embedded.MODEL), aireprune.Plan(**{**vars(plan), "calibrated": 5}), None)
    assert all(change.certificate is None for change in found)
    assert all(np.isfinite(change.error.log_radius).all() for change in found)
