"""Everything at toy sizes: what is printed is looked at, not how long it took."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aireprune.bench.lra import LRA

TINY = replace(LRA["text"], h=8, n=10, length=20, d_input=3)


@pytest.fixture
def tiny(monkeypatch):
    """The size of task text, made tiny."""
    monkeypatch.setitem(LRA, "text", TINY)
    return TINY
