"""A base model is named by its id where that is known, and never by the place where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from aireprune.pruning.base_model import base_model


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("state-spaces/mamba-130m-hf", "state-spaces/mamba-130m-hf"),
        ("hf://state-spaces/mamba-130m-hf@main", "state-spaces/mamba-130m-hf"),
        ("s3://bucket/models/mamba-130m/", "mamba-130m"),
        ("/home/somebody/hub/models--state-spaces--mamba-130m-hf/snapshots/0a1b", "state-spaces/mamba-130m-hf"),
        ("/home/somebody/mamba-130m", "mamba-130m"),
        ("../somebody/mamba-130m", "mamba-130m"),
    ],
)
def test_names(where: str, name: str) -> None:
    assert base_model(where).name == name


def test_a_local_folder_is_not_taken_for_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mamba").mkdir(parents=True)
    (tmp_path / "runs" / "mamba" / "README.md").write_text("---\nlicense: mit\n---\n")
    found = base_model("runs/mamba")
    assert (found.name, found.is_id, found.readme) == ("mamba", False, True)
    assert found.front == {"license": "license: mit"}
