"""The structure of a msgpack document: maps with their entries, and where in the file everything else is.

Nothing but keys, whole numbers and places is kept, so a file of gigabytes takes little memory, and a copy can take over
untouched parts byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MOST_NODES = 300_000
DEEPEST = 100
LONGEST_KEY = 4096  # bytes
NUMBERS = {0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q"}
SIMPLE = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8}  # nil, false, true, two sizes of floating point: bytes after
TEXTS = {0xD9: "B", 0xDA: "H", 0xDB: "I"}
BYTES = {0xC4: "B", 0xC5: "H", 0xC6: "I"}
LISTS = {0xDC: "H", 0xDD: "I"}
MAPS = {0xDE: "H", 0xDF: "I"}
EXTENSIONS = {0xC7: "B", 0xC8: "H", 0xC9: "I"}
FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the file."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Value(Span):
    """Anything that is not one of the following."""


@dataclass(frozen=True, slots=True)
class Number(Span):
    """A whole number."""

    value: int


@dataclass(frozen=True, slots=True)
class Text(Span):
    """Text or bytes; `body` is where they are themselves."""

    body: Span


@dataclass(frozen=True, slots=True)
class Listing(Span):
    """A list."""

    items: list[Node]


@dataclass(frozen=True, slots=True)
class Extension(Span):
    """Something of the application's own, by its code."""

    code: int
    body: Span


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a map, and where its key is."""

    key: Any
    place: Span
    value: Node


@dataclass(frozen=True, slots=True)
class Map(Span):
    """A map, in the order of the file; `header` is what stands before the first entry."""

    header: Span
    entries: dict[Any, Entry]


Node = Value | Number | Text | Listing | Extension | Map


class Parser:
    """Reads the nodes in a part of `data` (bytes, or a file mapped into memory). ValueError if there is no such node."""

    def __init__(self, data: Any, within: Span) -> None:
        self._data = data
        self._place, self._end = within.start, within.end
        self._nodes = 0

    def whole(self) -> Node:
        """The one node that the part holds."""
        node = self._node(0)
        if self._place != self._end:
            raise ValueError(f"{self._end - self._place} bytes follow after its end")
        return node

    def _node(self, depth: int) -> Node:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise ValueError(f"it holds more than {MOST_NODES} values")
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        start = self._place
        head = self._take(1)[0]
        if head <= 0x7F or head >= 0xE0:
            return Number(start, self._place, head if head <= 0x7F else head - 0x100)
        if head in NUMBERS:
            value = self._number(NUMBERS[head])
            return Number(start, self._place, value)
        if head in SIMPLE:
            self._skip(SIMPLE[head])
            return Value(start, self._place)
        return self._sized(start, head, depth)

    def _sized(self, start: int, head: int, depth: int) -> Node:
        """A node that says how much it holds."""
        if 0xA0 <= head <= 0xBF or head in TEXTS or head in BYTES:
            count = head & 0x1F if head <= 0xBF else self._number((TEXTS | BYTES)[head])
            body = self._skip(count)
            return Text(start, body.end, body)
        if 0x90 <= head <= 0x9F or head in LISTS:
            count = head & 0x0F if head <= 0x9F else self._number(LISTS[head])
            items = [self._node(depth + 1) for _ in self._counted(count)]
            return Listing(start, self._place, items)
        if 0x80 <= head <= 0x8F or head in MAPS:
            count = head & 0x0F if head <= 0x8F else self._number(MAPS[head])
            header = Span(start, self._place)
            entries = self._entries(count, depth)
            return Map(start, self._place, header, entries)
        if head in FIXED_EXTENSIONS or head in EXTENSIONS:
            count = FIXED_EXTENSIONS[head] if head in FIXED_EXTENSIONS else self._number(EXTENSIONS[head])
            code = self._number("b")
            body = self._skip(count)
            return Extension(start, body.end, code, body)
        raise ValueError(f"byte {head:#04x} at {start} begins nothing")

    def _entries(self, count: int, depth: int) -> dict[Any, Entry]:
        entries: dict[Any, Entry] = {}
        for _ in self._counted(count):
            place = self._node(depth + 1)
            key = self._key(place)
            if key in entries:
                raise ValueError(f"{str(key)[:100]} occurs twice")
            entries[key] = Entry(key, Span(place.start, place.end), self._node(depth + 1))
        return entries

    def _key(self, node: Node) -> str | int:
        if isinstance(node, Number):
            return node.value
        if not isinstance(node, Text) or node.body.end - node.body.start > LONGEST_KEY:
            raise ValueError(f"an entry is found by something else than text of at most {LONGEST_KEY} bytes")
        text: bytes = self._data[node.body.start : node.body.end]
        return text.decode()

    def _counted(self, count: int) -> Iterator[int]:
        if count > self._end - self._place:
            raise ValueError("it ends too early")
        return iter(range(count))

    def _number(self, layout: str) -> int:
        found: int = struct.unpack(f">{layout}", self._take(struct.calcsize(layout)))[0]
        return found

    def _take(self, count: int) -> bytes:
        span = self._skip(count)
        taken: bytes = self._data[span.start : span.end]
        return taken

    def _skip(self, count: int) -> Span:
        span = Span(self._place, self._place + count)
        if span.end > self._end:
            raise ValueError("it ends too early")
        self._place = span.end
        return span
