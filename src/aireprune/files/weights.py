"""What every file of weights offers, whether it is a checkpoint by itself or a shard of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from aireprune.arrays import Added, Edit, Shape
from aireprune.errors import AireError, shown

LONGEST_NAME = 4096  # characters
MOST_NAMES = 50_000_000  # characters of all names together

Keys = tuple[Any, ...]  # the way through a tree to one of its leaves
Leaf = TypeVar("Leaf")


class Size(NamedTuple):
    """What a written file holds."""

    bytes: int
    elements: int


class Weights(Protocol):
    """The tensors of one file."""

    path: Path
    shapes: dict[str, Shape]
    notices: list[str]  # what the user should know about how it was read or will be written

    def __getitem__(self, name: str) -> np.ndarray: ...

    def copy_edited(self, target: Path, edits: Mapping[str, Edit]) -> Size:
        """Write an edited copy to `target`, which is new or empty."""
        ...


@runtime_checkable
class Nested(Protocol):
    """A file that holds more than its tensors."""

    @property
    def within(self) -> Keys:
        """The keys that lead to the tensors; none if they are at the top."""
        ...


def check_names(path: Path, edits: Mapping[str, Edit], known: Mapping[str, object]) -> None:
    """Edits of tensors that are not there would be lost without a word; new ones stand beside one that is there."""
    for name, edit in edits.items():
        if (edit.like if isinstance(edit, Added) else name) not in known:
            raise AireError(f"{path} has no tensor {shown(name)} to edit.")


def refuse_additions(path: Path, edits: Mapping[str, Edit]) -> None:
    """Raise if a file of a kind that gets no new tensors would have to get one."""
    new = next((name for name, edit in edits.items() if isinstance(edit, Added)), None)
    if new is not None:
        raise AireError(
            f"{path} would get a new tensor {shown(new)}. Only folders with safetensors do: write a folder in our own "
            "format (a target without a suffix), or save the model as safetensors first."
        )


def named(path: Path, what: str, leaves: Iterable[tuple[Keys, Leaf]]) -> dict[str, tuple[Keys, Leaf]]:
    """The leaves of a tree by their dotted names, each with its way. `what` they are is for errors."""
    found: dict[str, tuple[Keys, Leaf]] = {}
    total = 0
    for where, leaf in leaves:
        texts = [key if isinstance(key, str) else str(key) for key in where]
        length = sum(len(text) + 1 for text in texts)
        total += length
        if length > LONGEST_NAME or total > MOST_NAMES:
            raise AireError(f"{path} has {what} with names of {length} characters, {total} in all; it is damaged.")
        name = ".".join(texts)
        if name in found:
            raise AireError(f"{path} has two {what} whose dotted name is {shown(name)}.")
        found[name] = (where, leaf)
    return found
