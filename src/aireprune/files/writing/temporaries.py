"""Temporary files and folders that a killed run cannot leave behind for ever.

Each stands beside its target as .NAME.12345678.tmp under a lock that the system drops when the process ends, however
it ends. The next run on the same target deletes those that nobody holds.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from aireprune.errors import shown

log = logging.getLogger("aireprune.files")


class Temporary:
    """A new, empty file or folder beside `target`, locked until it is discarded."""

    def __init__(self, target: Path, folder: bool = False) -> None:
        self.owned = True  # False while a journal says what becomes of it
        while True:
            self.path = hidden(target, "tmp")
            self._descriptor = _make(self.path, folder)
            with suppress(OSError):  # a file system without locks: then nobody can take it for abandoned either
                fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            if same_file(self._descriptor, self.path):
                return
            os.close(self._descriptor)

    def discard(self) -> None:
        """Delete what is left under the temporary name, and let go of the lock."""
        try:
            if self.owned:
                remove(self.path)
        except OSError as error:
            log.warning("%s could not be removed (%s).", shown(self.path), error.strerror or error)
        finally:
            os.close(self._descriptor)


def hidden(target: Path, ending: str) -> Path:
    """A new name beside `target` for something of ours."""
    return target.parent / f".{target.name}.{secrets.token_hex(4)}.{ending}"


def is_hidden_name(name: str, target: str) -> bool:
    """Whether a name is one that `hidden` gives for a target of this name."""
    return re.fullmatch(rf"\.{re.escape(target)}\.[0-9a-f]{{8}}\.(tmp|old)", name) is not None


def sweep(target: Path) -> None:
    """Delete the temporaries of `target` whose process is gone, and say so."""
    if not target.parent.is_dir():
        return
    for name in os.listdir(target.parent):
        if name.endswith(".tmp") and is_hidden_name(name, target.name):
            _remove_abandoned(target.parent / name)


def same_file(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one that stands at `path` now."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def remove(path: Path) -> None:
    """Delete a file, a link or a whole folder; nothing there is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _make(path: Path, folder: bool) -> int:
    if folder:
        os.mkdir(path)
        return os.open(path, os.O_RDONLY)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


def _remove_abandoned(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if same_file(descriptor, path):
            remove(path)
            log.warning("Removed %s, which a run that was killed had left behind.", shown(path))
    except OSError:  # locked: its run is still at work; or it is not ours to delete
        return
    finally:
        os.close(descriptor)
