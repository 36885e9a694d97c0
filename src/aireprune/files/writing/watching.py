"""Who wants to know how many bytes of a copy have been written, whichever thread writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_watchers: list[Callable[[int], None]] = []


@contextmanager
def watched(tell: Callable[[int], None]) -> Iterator[None]:
    """Within this context tell(count) is called whenever so many more bytes of a copy have been written."""
    _watchers.append(tell)
    try:
        yield
    finally:
        _watchers.remove(tell)


def wrote(count: int) -> None:
    for tell in _watchers:
        tell(count)
