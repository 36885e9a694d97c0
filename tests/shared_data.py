"""Data sets and public checkpoints that are not in the repository: $AIRE_DATA, or ../shared/data beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("AIRE_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def shared(name: str) -> Path:
    """A file of the shared data; the test is skipped where it is missing."""
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{path} is not here; set AIRE_DATA to a folder that has {name}")
    return path
