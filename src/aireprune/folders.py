"""Where things are kept that took time to make."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$AIRE_CACHE, or ~/.cache/aireprune."""
    return Path(os.environ.get("AIRE_CACHE") or Path.home() / ".cache" / "aireprune")
