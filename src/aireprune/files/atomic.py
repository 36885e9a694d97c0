"""Outputs appear whole or not at all: written beside their place, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aireprune.errors import AireError


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside `target` to write a file to; it becomes `target` on success, else it vanishes."""
    temporary = _beside(target)
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a new temporary folder that becomes `target` on success. An existing target is an error unless `overwrite`."""
    if target.exists() and not overwrite:
        raise AireError(f"{target} exists already. Choose another output, or allow it to be replaced with --overwrite.")
    temporary = _beside(target)
    temporary.mkdir()
    try:
        yield temporary
        if target.exists():
            retired = _beside(target)
            os.replace(target, retired)
            try:
                os.replace(temporary, target)
            except OSError:
                os.replace(retired, target)
                raise
            _remove(retired)
        else:
            os.replace(temporary, target)
    finally:
        _remove(temporary)


def _beside(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
