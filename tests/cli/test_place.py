"""Places are shown as they were given."""

import os
from pathlib import Path

import pytest

from aireprune.cli.place import Place


@pytest.mark.parametrize(
    "given", ["s3://bucket/model", "gs://bucket/a/b", "memory:///model", "a/b", "/a/b.pt", "zoo:listops-s5"]
)
def test_as_it_was_given(given):
    assert str(Place(given)) == os.fspath(Place(given)) == given


def test_what_is_made_of_a_place(tmp_path):
    assert str(Place("s3://bucket/model") / "plan.json") == "s3://bucket/model/plan.json"
    assert Place(tmp_path) == tmp_path
    assert Place(tmp_path).is_dir()
    assert isinstance(Place("a"), Path)
