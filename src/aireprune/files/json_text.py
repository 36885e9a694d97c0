"""JSON from files that came from anywhere, read within bounds of memory and depth."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aireprune.errors import AireError, shown
from aireprune.files.reading import open_plain
from aireprune.files.refusals import HEAD, refuse_foreign

MOST = 150_000_000  # bytes of memory that one document may take
DEEPEST = 100
MOST_DIGITS = 40
LONGEST = 100_000_000  # bytes of a document
# Roughly what each of these characters stands for in memory: a dictionary, a list, an entry, a value, half a string.
COSTS = {b"{": 184, b"[": 88, b":": 60, b",": 40, b'"': 28}

Pairs = Callable[[list[tuple[str, Any]]], Any]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    with open_plain(path) as file:
        text = file.read(LONGEST + 1)
    refuse_foreign(path, text[:HEAD])
    try:
        value = parse_json(text)
    except ValueError as error:
        raise AireError(f"{path} is not readable as JSON ({error}).") from None
    if not isinstance(value, dict):
        raise AireError(f"{path} holds a JSON {type(value).__name__}; expected an object with named entries.")
    return value


def parse_json(text: bytes, pairs: Pairs | None = None) -> Any:
    """The value of a document; ValueError says why there is none.

    `pairs` makes an object of its entries, as object_pairs_hook of json.loads does.
    """
    cost = len(text) * (2 if text.isascii() else 8) + sum(each * text.count(mark) for mark, each in COSTS.items())
    if len(text) > LONGEST or cost > MOST:
        raise ValueError(f"{len(text)} bytes that would take more than {MOST // 10**6} MB of memory")
    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_int=_integer)
    except RecursionError:
        raise ValueError(f"nested more than {DEEPEST} levels deep") from None
    except ValueError as error:
        raise ValueError(shown(error, 300)) from None
    if _deeper_than(DEEPEST, value):
        raise ValueError(f"nested more than {DEEPEST} levels deep")
    return value


def json_text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _deeper_than(depth: int, value: Any) -> bool:
    level = [value]
    for _ in range(depth):
        level = [child for node in level for child in _children(node)]
    return bool(level)


def _children(node: Any) -> list[Any]:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [child for child in inner if isinstance(child, dict | list)]
