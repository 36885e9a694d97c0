"""The header of a GGUF file: what it says of itself, and where its tensors are.

Everything that it claims is checked against the size of the file before anything is sized by it. Lists (the tokens of
a vocabulary) are passed over.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aireprune.arrays import Shape
from aireprune.errors import AireError, shown
from aireprune.files.reading import open_plain
from aireprune.files.shapes import is_shape

MOST_ENTRIES = 200_000  # fields, or tensors
LONGEST_NAME = 4096
MOST_AXES = 4
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
VERSIONS = (2, 3)


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """shape: as NumPy has it, the slowest axis first. kind: the number of its type. start: of its bytes in the file."""

    shape: Shape
    kind: int
    start: int


@dataclass(frozen=True)
class Header:
    fields: dict[str, Any]
    tensors: dict[str, Tensor]


def read_header(path: Path) -> Header:
    """The header, or an error if the file is none or is cut off."""
    with open_plain(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _Reader(data).header()
        except (ValueError, struct.error, UnicodeDecodeError) as problem:
            reason = problem if isinstance(problem, ValueError) and not isinstance(problem, UnicodeDecodeError) else ""
            told = f" ({shown(reason)})" if str(reason) else ""
            raise AireError(
                f"{path} is a GGUF file that is damaged or truncated{told}; download or make it again."
            ) from None


class _Reader:
    """Goes through the bytes. ValueError or struct.error if they are not what they should be."""

    def __init__(self, data: mmap.mmap):
        self._data, self._place = data, 4

    def header(self) -> Header:
        version = self._number("I")
        if version not in VERSIONS:
            raise ValueError(f"version {version}, where {' and '.join(map(str, VERSIONS))} are read")
        tensors, count = self._count(), self._count()
        fields = {self._text(LONGEST_NAME): self._value(self._number("I")) for _ in range(count)}
        found = [self._tensor() for _ in range(tensors)]
        step = fields.get("general.alignment", 32)
        if type(step) is not int or not 1 <= step <= 1 << 20:
            raise ValueError("an impossible alignment")
        start = -(-self._place // step) * step
        placed = {name: Tensor(shape=shape, kind=kind, start=start + offset) for name, shape, kind, offset in found}
        if len(placed) < tensors or any(tensor.start > len(self._data) for tensor in placed.values()):
            raise ValueError("its tensors are not all there")
        return Header(fields, placed)

    def _number(self, code: str) -> Any:
        size = struct.calcsize(f"<{code}")
        (value,) = struct.unpack(f"<{code}", self._data[self._place : self._place + size])
        self._place += size
        return value

    def _count(self) -> int:
        count = int(self._number("Q"))
        if count > MOST_ENTRIES:
            raise ValueError(f"{count} entries")
        return count

    def _text(self, longest: int) -> str:
        length = self._number("Q")
        if length > min(longest, len(self._data) - self._place):
            raise ValueError(f"a text of {length} bytes")
        self._place += length
        return bytes(self._data[self._place - length : self._place]).decode()

    def _value(self, kind: int) -> Any:
        if kind in NUMBERS:
            return self._number(NUMBERS[kind])
        if kind == TEXT:
            return self._text(len(self._data))
        if kind != LIST:
            raise ValueError(f"a value of unknown type {kind}")
        inner, count = self._number("I"), self._number("Q")
        if inner in NUMBERS:
            self._place += count * struct.calcsize(f"<{NUMBERS[inner]}")
        elif inner == TEXT and 8 * count <= len(self._data):
            for _ in range(count):
                self._text(len(self._data))
        else:
            raise ValueError(f"a list of type {inner} with {count} entries")
        if self._place > len(self._data):
            raise ValueError("a list that goes beyond its end")
        return None

    def _tensor(self) -> tuple[str, Shape, int, int]:
        name, axes = self._text(LONGEST_NAME), self._number("I")
        if axes > MOST_AXES:
            raise ValueError(f"a tensor of {axes} axes")
        shape = tuple(int(self._number("Q")) for _ in range(axes))[::-1]
        if not is_shape(shape):
            raise ValueError(f"an impossible shape {shape}")
        return name, shape, int(self._number("I")), int(self._number("Q"))
