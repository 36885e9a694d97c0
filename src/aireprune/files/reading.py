"""Opening files that came from anywhere: only plain files, so that nothing waits for ever or never ends."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from aireprune.errors import AireError


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading. A pipe, a device or a folder is refused, without waiting for it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise AireError(f"{path} cannot be read ({error.strerror or error}).") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise AireError(f"{path} is no plain file; put the file itself there.")
    return os.fdopen(descriptor, "rb")


def ends(path: Path, first: int, last: int) -> tuple[bytes, bytes]:
    """The first and the last bytes of a file."""
    with open_plain(path) as file:
        head = file.read(first)
        file.seek(-min(last, file.seek(0, os.SEEK_END)), os.SEEK_END)
        return head, file.read(last)
