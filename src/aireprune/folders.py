"""Where things are on this machine: what took time to make, and the data sets of the tasks."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$AIRE_CACHE, or ~/.cache/aireprune."""
    return Path(os.environ.get("AIRE_CACHE") or Path.home() / ".cache" / "aireprune")


def data_folder() -> Path:
    """$AIRE_DATA, or the folder data in the cache folder."""
    return Path(os.environ.get("AIRE_DATA") or cache_folder() / "data")
