"""Pages are written beside what they are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from aireprune.errors import AireError
from aireprune.reports.place import page_path, place_of


def test_places(tmp_path):
    assert page_path(tmp_path) == tmp_path / "report.html"
    for name, page in (
        ("small.safetensors", "small.report.html"),
        ("small.plan.json", "small.report.html"),
        ("plan.json", "report.html"),
        ("checkpoint_1.5", "checkpoint_1.5.report.html"),
    ):
        assert page_path(tmp_path / name) == tmp_path / page
    assert place_of("x.pt", None, "explore.html") == Path("x.explore.html")
    assert page_path(Path("zoo:listops-s5")) == Path("listops-s5.report.html")
    assert place_of(object(), "here.html") == Path("here.html")
    with pytest.raises(AireError, match="needs a place: give it with out="):
        place_of(object(), None)
