"""Bytes from one file to another without passing through this process where the system can do that."""

from __future__ import annotations

import errno
import os

import numpy as np
import numpy.typing as npt

from aireprune.errors import AireError
from aireprune.files.writing.watching import wrote

CHUNK = 4 << 20
AT_ONCE = 1 << 28  # bytes that the kernel copies before progress is told
# what copy_file_range answers when two files cannot be copied that way (other file system, old kernel, odd file)
UNSUPPORTED = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY, errno.EBADF}


def copy_range(source: int, target: int, start: int, count: int, to: int, name: str) -> None:
    """Copy `count` bytes at `start` of one open file to position `to` of another. `name` is the source in errors."""
    while count > 0:
        done = _in_kernel(source, target, start, count, to) or _by_hand(source, target, start, count, to)
        if done == 0:
            raise AireError(f"{name} ended while it was being read: it is truncated or was changed meanwhile.")
        start, to, count = start + done, to + done, count - done
        wrote(done)


def write_at(target: int, data: memoryview | bytes, to: int) -> None:
    """Write all bytes at position `to`."""
    view = memoryview(data)
    while view:
        done = os.pwrite(target, view, to)
        view, to = view[done:], to + done


def read_at(source: int, start: int, count: int, name: str) -> npt.NDArray[np.uint8]:
    """Read `count` bytes at `start`. `name` is the source in errors."""
    try:
        data = np.empty(count, np.uint8)
    except MemoryError:
        raise AireError(f"{name} has a tensor of {count} bytes, for which there is not enough memory.") from None
    view = data.data
    while view:
        done = os.preadv(source, [view], start)
        if done == 0:
            raise AireError(f"{name} ended while it was being read: it is truncated or was changed meanwhile.")
        view, start = view[done:], start + done
    return data


def _in_kernel(source: int, target: int, start: int, count: int, to: int) -> int:
    if not hasattr(os, "copy_file_range"):
        return 0
    try:
        return os.copy_file_range(source, target, min(count, AT_ONCE), start, to)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        return 0


def _by_hand(source: int, target: int, start: int, count: int, to: int) -> int:
    data = os.pread(source, min(count, CHUNK), start)
    write_at(target, data, to)
    return len(data)
