"""Having the system write to the disk what it still keeps in memory, so that a rename never shows an empty file."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Write out a file, or a folder and all that is in it."""
    if not path.is_dir():
        _sync_one(path)
        return
    for parent, _, files in os.walk(path):
        for name in files:
            _sync_one(Path(parent, name))
        sync_folder(Path(parent))


def sync_folder(folder: Path) -> None:
    """Write out the names in a folder."""
    _sync_one(folder)


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
