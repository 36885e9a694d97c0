"""One at a time in a folder: a run or a sweep locks its folder, and the system unlocks it when the process ends."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aireprune.errors import AireError

if sys.platform != "win32":
    import fcntl

NAME = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # a file system that cannot lock


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Have the folder, which is made, for oneself; AireError if another `what` (a sweep, a training) is running in it.

    The lock is on a file in the folder, which is removed in the end; one that a killed process left behind locks nobody
    out. Where the system has no such locks, nothing is locked. A folder that was made for nothing goes again.
    """
    path = folder / NAME
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _acquire(path)
    except BlockingIOError:
        raise AireError(f"Another {what} is running in {folder}. Wait for it, or choose another folder.") from None
    except OSError as error:
        raise AireError(
            f"The folder {folder} cannot be written to ({error.strerror or error}). Choose another."
        ) from error
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        if new:
            with suppress(OSError):  # there is something in it
                folder.rmdir()
        raise
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def _acquire(path: Path) -> int:
    """The locked file's descriptor; BlockingIOError if somebody else has it."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(lock)
            if _is(lock, path):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)  # the one before us removed the file while we opened it


def _lock(file: int) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def _is(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
