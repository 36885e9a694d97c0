"""Values from JSON files that somebody may have edited or damaged: of the right type, or a sentence about the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aireprune.errors import AireError

LARGEST = 1e100
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
    """A finite number, and none so large that its square is not."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise TypeError(f"{str(value)[:40]!r} is not a number that can stand here")
    return value


def bounds(values: Any) -> tuple[float, float]:
    """Of an interval; of a single example they are infinite."""
    low, high = values
    if not isinstance(low, int | float) or not isinstance(high, int | float) or not low <= high:
        raise TypeError(f"{str(values)[:40]!r} is not an interval")
    return low, high


def whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{str(value)[:40]!r} is not a whole number")
    return value


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} is not text")
    return value
