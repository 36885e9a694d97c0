"""Values from JSON files that somebody may have edited or damaged: of the right type, or a sentence about the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aireprune.errors import AireError

DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@contextmanager
def understood(path: Path, sentence: str) -> Iterator[None]:
    """Whatever unexpected values lead to within becomes an AireError: the path and the rest of the sentence."""
    try:
        yield
    except DAMAGE as problem:
        raise AireError(f"{path} {sentence} ({type(problem).__name__}: {str(problem)[:120]}).") from None


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object."""
    value = json.loads(path.read_bytes())
    if not isinstance(value, dict):
        raise TypeError(f"a JSON {type(value).__name__} in place of an object")
    return value


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{str(value)[:40]!r} is not a number")
    float(value)
    return value


def whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{str(value)[:40]!r} is not a whole number")
    return value


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} is not text")
    return value
