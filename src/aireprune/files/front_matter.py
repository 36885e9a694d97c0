"""The YAML at the beginning of a model card (README.md), entry by entry, as it is written there.

No YAML is interpreted: an entry begins with a key at the beginning of a line and ends before the next one. That is enough
to carry entries over from one card to another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from aireprune.errors import AireError
from aireprune.files.links import stays_inside
from aireprune.files.reading import open_plain

README = "README.md"
MOST = 1 << 20  # bytes of a card that are read
FENCE = "---"
KEY = re.compile(r"([A-Za-z_][\w-]*):(?=\s|$)")


def read_front_matter(folder: Path) -> dict[str, str]:
    """The entries of a folder's card by key; none if it has no card, or one that cannot be read."""
    path = folder / README
    if not path.is_file() or not stays_inside(folder, path):
        return {}
    try:
        with open_plain(path) as file:
            return entries(file.read(MOST).decode("utf-8-sig"))
    except (AireError, UnicodeDecodeError):
        return {}


def entries(card: str) -> dict[str, str]:
    """The entries of a card by key, each with the lines that belong to it."""
    first, *rest = (line.rstrip("\r") for line in card.split("\n"))
    lines = [line.rstrip() for line in rest]
    if first.rstrip() != FENCE or FENCE not in lines:
        return {}
    found: dict[str, list[str]] = {}
    here: list[str] = []
    for line in lines[: lines.index(FENCE)]:
        if (key := KEY.match(line)) is not None:
            here = found.setdefault(key[1], [])
        here.append(line)
    return {key: "\n".join(block) for key, block in found.items()}


def items(entry: str) -> list[str]:
    """The items of an entry that is a list, `[a, b]` or a line `- a` each, or a single value."""
    value = entry.partition(":")[2].strip()
    if value.startswith("["):
        return [item for part in value.strip("[]").split(",") if (item := " ".join(part.split()))]
    dashed = [line.strip()[2:].strip() for line in value.split("\n") if line.strip().startswith("- ")]
    return dashed or ([value] if value else [])


def front_matter(card: Mapping[str, str]) -> str:
    """The beginning of a card with these entries."""
    return "\n".join([FENCE, *card.values(), FENCE]) + "\n"
