"""Outputs appear whole or not at all: written beside their place, then renamed.

Whatever goes wrong on the way (a full disk, an edit that raises, Ctrl-C) leaves nothing behind, and what the target
held before is still there.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from aireprune.errors import AireError


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside `target` to write a file to; it becomes `target` on success, else it vanishes."""
    with atomic_paths([target], overwrite=True) as (temporary,):
        yield temporary


@contextmanager
def atomic_paths(targets: Sequence[Path], overwrite: bool = False) -> Iterator[list[Path]]:
    """The same for several files that belong together: all of them appear, or none does."""
    for target in targets:
        if target.is_dir():
            raise AireError(f"{target} is a directory, but a file has to be written there. Choose another output.")
        refuse_existing(target, overwrite)
    with _explained(targets[0]), _parents(targets[0]):
        temporaries = [_beside(target) for target in targets]
        try:
            yield temporaries
            _replace_all(temporaries, targets)
        finally:
            for temporary in temporaries:
                temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a new temporary folder that becomes `target` on success. One that exists needs `overwrite`."""
    refuse_existing(target, overwrite)
    with _explained(target), _parents(target):
        temporary = _beside(target)
        try:
            temporary.mkdir()
            yield temporary
            _replace_all([temporary], [target])
        finally:
            remove(temporary)


def refuse_existing(target: Path, overwrite: bool) -> None:
    """An existing target is an error unless `overwrite`."""
    if os.path.lexists(target) and not overwrite:
        raise AireError(f"{target} exists already. Choose another output, or allow it to be replaced with --overwrite.")


def remove(path: Path) -> None:
    """Delete a file, a link or a whole folder; nothing there is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _replace_all(temporaries: Sequence[Path], targets: Sequence[Path]) -> None:
    """Move every temporary to its target. If one move fails, those before it are undone."""
    retired: list[tuple[Path, Path]] = []
    placed: list[Path] = []
    try:
        for temporary, target in zip(temporaries, targets, strict=True):
            if os.path.lexists(target):
                old = _beside(target)
                os.rename(target, old)
                retired.append((old, target))
            os.rename(temporary, target)
            placed.append(target)
    except BaseException:
        for target in placed:
            remove(target)
        for old, target in retired:
            os.rename(old, target)
        raise
    for old, _ in retired:
        remove(old)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    """A failure of the system while writing (disk full, no permission) as one sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise AireError(f"Writing {target} failed ({reason}); nothing was left behind.") from error


@contextmanager
def _parents(target: Path) -> Iterator[None]:
    """Make the folders above `target`; those that were made go again if the work fails."""
    missing = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


def _beside(target: Path) -> Path:
    return target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"
