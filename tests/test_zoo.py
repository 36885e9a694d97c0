"""Models that come with the package are found by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aireprune
from aireprune import embedded, zoo
from aireprune.errors import AireError
from aireprune.tasks import load_task


def test_a_name_stands_for_a_path_wherever_one_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert aireprune.load("zoo:smnist-s5").config == aireprune.load(embedded.MODEL).config
    plan = aireprune.prune_file("zoo:smnist-s5", tmp_path / "small", ratio=0.5)
    assert plan.source == str(embedded.MODEL.resolve())
    assert aireprune.report("zoo:smnist-s5").path == Path("smnist-s5.report.html")


def test_a_file_of_that_name_goes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zoo:listops-s5").mkdir()
    assert zoo.locate("zoo:listops-s5") == Path("zoo:listops-s5")


def test_other_names():
    with pytest.raises(AireError, match=r"no model zoo:listops-s6\. Did you mean zoo:listops-s5\?.*text-s5"):
        zoo.locate("zoo:listops-s6")
    assert zoo.locate("model.pt") == Path("model.pt")


def test_all_are_listed():
    listed = {model.name: model for model in zoo.catalogue()}
    assert list(listed) == [f"zoo:{name}" for name in zoo.names()]
    assert {path.parent.name for path in zoo.FOLDER.glob("*/model.safetensors")} == set(zoo.names())
    assert (listed["zoo:lm-mamba"].metric, listed["zoo:lm-mamba"].family) == ("bits per byte", "mamba")


def test_the_digits_are_split_three_ways():
    task, everything = load_task("digits"), embedded.digits().test
    splits = (task.train, task.validation, task.test)
    assert [len(split) for split in splits] == [200, 300, 500]
    np.testing.assert_array_equal(np.concatenate([split.x for split in splits]), everything.x)
    np.testing.assert_array_equal(np.concatenate([split.y for split in splits]), everything.y)
