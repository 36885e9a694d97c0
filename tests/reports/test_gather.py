"""Documents: the parts that a subject has, and no others."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from aireprune import embedded
from aireprune.errors import AireError
from aireprune.pruning.plan import Plan
from aireprune.reports.gather import Judged, document_of
from aireprune.reports.subject import find_subject


def test_of_a_checkpoint():
    document = document_of(find_subject(embedded.MODEL))
    assert document.title == "smnist-s5"
    assert document.model.plan is None
    assert document.making.commands == ("aire report zoo:smnist-s5",)
    assert [fact.label for fact in document.facts] == ["States", "Parameters", "Weights on disk"]
    assert all(layer.kept is None and layer.certificate is None for layer in document.model.layers)


def test_of_a_pruned_checkpoint_and_its_plan(pruned):
    done, planned = document_of(find_subject(pruned)), document_of(find_subject(pruned / "plan.json"))
    assert (done.title, planned.title) == ("half, pruned", "plan.json: a plan")
    assert (done.facts[0].before, done.facts[0].value) == ("128", "64")
    assert done.making.commands[0] == planned.making.commands[0].replace("-o OUT", f"-o {pruned}")
    for after, before in zip(done.model.layers, planned.model.layers, strict=True):
        assert after.certificate["relative_h2"] == pytest.approx(before.certificate["relative_h2"], rel=1e-5)
    assert done.model.plan["fingerprint"] == Plan.load(pruned / "plan.json").fingerprint


def test_measured_on_a_task(pruned):
    document = document_of(find_subject(pruned), Judged(task="digits", examples=20))
    assert [fact.label for fact in document.facts][3:] == ["Accuracy", "Speed"]
    assert "on 20 examples" in document.verdict
    assert document.making.commands[-1].endswith("--task digits --examples 20")
    with pytest.raises(AireError, match="compares a pruned model with its original"):
        document_of(find_subject(embedded.MODEL), Judged(task="digits"))


def test_without_its_original_the_states_that_are_left_are_shown(pruned, tmp_path):
    shutil.copytree(pruned, tmp_path / "alone")
    replace(Plan.load(pruned / "plan.json"), source=None).save(tmp_path / "alone" / "plan.json")
    document = document_of(find_subject(tmp_path / "alone"))
    assert sum(layer.states for layer in document.model.layers) == 64
    assert document.model.plan is None
    assert document.facts[0].before == "128"
    assert document.model.layers[0].certificate == Plan.load(pruned / "plan.json").certificate[0]
    assert "names no original" in document.notices[0]


def test_of_a_sweep_with_and_without_its_model(swept, tmp_path):
    document = document_of(find_subject(swept))
    assert document.sweep.task == "toy"
    assert document.model.plan["method"] == "aire"
    assert document.making.commands[0].startswith(f"aire sweep {swept.parent / 'model'} ")
    shutil.copytree(swept, tmp_path / "moved")
    told = (tmp_path / "moved" / "sweep.json").read_text().replace('"source": "', '"source": "/gone')
    (tmp_path / "moved" / "sweep.json").write_text(told)
    alone = document_of(find_subject(tmp_path / "moved"))
    assert alone.model is None
    assert "does not name a model that is there" in alone.notices[0]
