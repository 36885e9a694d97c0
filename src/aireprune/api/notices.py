"""What a user should know, said without failing."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from aireprune.errors import Notice


def tell(notices: Iterable[str]) -> None:
    """Python's way to say something without failing; the command line prints notes instead."""
    for notice in notices:
        warnings.warn(notice, Notice, stacklevel=3)
