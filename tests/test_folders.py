"""Where data and caches are, with and without the environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from aireprune.folders import cache_folder, data_folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home, with neither variable set."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AIRE_CACHE", "AIRE_DATA"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_both_are_in_the_users_cache_unless_said_otherwise(home, monkeypatch):
    assert cache_folder() == home / ".cache" / "aireprune"
    assert data_folder() == home / ".cache" / "aireprune" / "data"
    monkeypatch.setenv("AIRE_CACHE", str(home / "elsewhere"))
    assert data_folder() == home / "elsewhere" / "data"
    monkeypatch.setenv("AIRE_DATA", str(home / "sets"))
    assert (cache_folder(), data_folder()) == (home / "elsewhere", home / "sets")


def test_an_empty_variable_counts_as_unset(home, monkeypatch):
    monkeypatch.setenv("AIRE_CACHE", "")
    monkeypatch.setenv("AIRE_DATA", "")
    assert data_folder() == home / ".cache" / "aireprune" / "data"
