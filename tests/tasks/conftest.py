"""An empty data folder and an empty cache for every test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that AIRE_DATA names."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("AIRE_DATA", str(folder))
    monkeypatch.setenv("AIRE_CACHE", str(tmp_path / "cache"))
    return folder
