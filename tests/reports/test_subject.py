"""What a report is about is recognised, and what does not belong together is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

import aireprune
from aireprune import embedded
from aireprune.errors import AireError
from aireprune.pruning.plan import Plan
from aireprune.reports.subject import find_subject


def test_every_kind(pruned, swept):
    plain = find_subject(embedded.MODEL)
    assert (plain.plan, plain.pruned, plain.sweep) == (None, None, None)
    half = find_subject(pruned)
    assert half.full.name == "zoo:smnist-s5"
    assert half.pruned.name == str(pruned)
    assert half.plan.kept == 64
    planned = find_subject(pruned / "plan.json")
    assert planned.pruned is None
    assert planned.full.fingerprint() == planned.plan.fingerprint
    sweep = find_subject(swept)
    assert sweep.plan.ratio == sweep.sweep.summary.variants["aire"].safe_ratio
    in_memory = find_subject(aireprune.prune(aireprune.load(embedded.MODEL), plan=half.plan), embedded.MODEL)
    assert in_memory.plan.kept == 64


def test_a_missing_original_is_said(pruned, tmp_path):
    shutil.copytree(pruned, tmp_path / "alone")
    plan = Plan.load(pruned / "plan.json")
    replace(plan, source="/nowhere/at/all").save(tmp_path / "alone" / "plan.json")
    subject = find_subject(tmp_path / "alone")
    assert subject.full is None
    (notice,) = subject.notices
    assert notice.startswith("The plan names /nowhere/at/all, which is not there: what was removed is not shown.")
    with pytest.raises(AireError, match="names /nowhere/at/all"):
        find_subject(tmp_path / "alone" / "plan.json")
    assert find_subject(tmp_path / "alone", embedded.MODEL).full is not None


def test_what_does_not_belong_together(pruned, swept, tmp_path):
    other = swept.parent / "model"
    with pytest.raises(AireError, match="The plan was made for another model"):
        find_subject(pruned, other)
    with pytest.raises(AireError, match="is not the model that was swept"):
        find_subject(swept, embedded.MODEL)
    with pytest.raises(AireError, match="has no plan, so it cannot be compared"):
        find_subject(embedded.MODEL, other)
    with pytest.raises(AireError, match="nothing"):
        find_subject(tmp_path / "nothing")
