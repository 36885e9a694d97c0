"""What a sweep's folder gets besides its data."""

from __future__ import annotations

import shutil
import sys

import pytest

from aireprune.errors import AireError
from aireprune.pruning.source import open_file
from aireprune.reports import page, present


@pytest.fixture
def folder(swept, tmp_path):
    shutil.copytree(swept, tmp_path / "sweep")
    return tmp_path / "sweep"


def test_a_page_and_figures(folder, swept):
    assert present.present_sweep(folder, open_file(swept.parent / "model")) == ()
    names = {path.name for path in folder.iterdir()}
    assert {"report.html", "curves.svg", "profile-aire.svg", "profile-random.svg", "profile-balanced.svg"} <= names


def test_without_matplotlib_there_is_still_a_page(folder, swept, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (note,) = present.present_sweep(folder, open_file(swept.parent / "model"))
    assert "need matplotlib" in note
    assert (folder / "report.html").is_file()
    assert not (folder / "curves.svg").exists()


def test_a_page_that_cannot_be_written_does_not_cost_the_sweep(folder, swept, monkeypatch):
    monkeypatch.setattr(page, "LARGEST", 1000)
    (note,) = present.present_sweep(folder, open_file(swept.parent / "model"))
    assert note.startswith("no report was written. The page would have")
    with pytest.raises(AireError, match="too many states for one page"):
        page.write_page(present.document_of(present.find_subject(folder)), folder / "x.html")
    assert not (folder / "x.html").exists()
