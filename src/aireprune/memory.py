"""What the C library does with freed memory. Both functions do nothing where it is not glibc."""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_ARENA_MAX = -8  # of malloc.h


def give_back() -> None:
    """Freed memory back to the system: glibc keeps what every thread has freed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def share_heap() -> None:
    """One heap for all threads of the process, from here on: calibration has a thread for every batch, one of which runs
    at a time, and what one has freed serves the next. For a process of our own: it cannot be undone."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
