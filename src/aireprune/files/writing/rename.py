"""Renames that say what happens to an existing target: refuse it, or swap places with it.

Linux has both as one step (renameat2). Where the system or the file system has not, a file takes a new name by a hard
link and a folder by a plain rename, which replaces nothing but an empty folder; swapping is then left to the caller.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from pathlib import Path
from typing import Any

AT_FDCWD = -100
NOREPLACE, EXCHANGE = 1, 2
UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}


def rename_new(source: Path, target: Path) -> None:
    """Rename a file or folder to a name that nobody has. FileExistsError if somebody has it by now."""
    if _renamed(source, target, NOREPLACE):
        return
    if source.is_dir() and not source.is_symlink():
        _rename_folder(source, target)
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # no links here: take the name, then replace
        os.rename(source, target)
    else:
        os.unlink(source)


def _rename_folder(source: Path, target: Path) -> None:
    """The plain rename of a folder replaces at most an empty folder."""
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.ENOTDIR):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        raise


def exchange(one: Path, other: Path) -> bool:
    """Let two existing files or folders swap their names in one step; False if this system cannot."""
    return _renamed(one, other, EXCHANGE)


def _renamed(source: Path, target: Path, flags: int) -> bool:
    """Call renameat2; False if there is none, or not on this file system."""
    call = _renameat2()
    if call is None:
        return False
    if call(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags) == 0:
        return True
    code = ctypes.get_errno()
    if code in UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(source), None, str(target))


@cache
def _renameat2() -> Any:
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    return call
