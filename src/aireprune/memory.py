"""What the C library does with freed memory. Nothing here does anything where it is not glibc."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h
_LARGE = 1 << 25  # bytes: the most that glibc by itself lets the size grow from which memory is the system's
_HUGE = 1 << 30
_NEVER = -1
_LOCK = threading.Lock()
_users = 0


def give_back() -> None:
    """Freed memory back to the system: glibc keeps what every thread has freed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def share_heap() -> None:
    """One heap for all threads of the process, from here on: calibration has a thread for every batch, one of which runs
    at a time, and what one has freed serves the next. For a process of our own: it cannot be undone."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Inside, memory that is freed serves the next request instead of going back to the system, whatever its size; after
    the last one inside, it goes back. For loops: a page that is new has to be cleared, which took an eighth of a training
    step."""
    global _users
    with _LOCK:
        _users += 1
        if _users == 1:
            _set(_HUGE, _NEVER)
    try:
        yield
    finally:
        with _LOCK:
            _users -= 1
            if _users == 0:
                _set(_LARGE, 2 * _LARGE)
                give_back()


def _set(own_from: int, trimmed_from: int) -> None:
    """From which size on a request is the system's own, and from which on the end of the heap goes back to it."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, own_from) or library.mallopt(M_MMAP_THRESHOLD, _LARGE)
        library.mallopt(M_TRIM_THRESHOLD, trimmed_from)
