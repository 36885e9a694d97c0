"""Libraries that may be missing: a sentence says which, and how to get it."""

from __future__ import annotations

import sys

import pytest

from aireprune.errors import AireError
from aireprune.extras import data_frame, extra


def test_a_missing_library_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(AireError, match=r"needs pandas, which is not installed: pip install pandas, or 'aireprune\["):
        data_frame([{"a": 1}])


def test_what_a_library_lacks_itself_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        extra("half_installed", "A test")
