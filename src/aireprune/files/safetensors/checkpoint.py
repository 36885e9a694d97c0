"""safetensors files: values on demand, and edited copies streamed so that memory never holds more than one tensor.

A copy is written front to back. Runs of untouched tensors are handed to the kernel as one range; edited tensors are
read, edited and written one at a time. Their new sizes are only known then, so room for the header is left at the
start (whole pages, which makes the kernel's copies fast) and the header comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from aireprune.arrays import Added, Edit, Shape
from aireprune.errors import shown
from aireprune.files.dtypes import BFLOAT16, BITS, NUMPY, code_of, decode, encode
from aireprune.files.reading import open_plain
from aireprune.files.safetensors.header import Entry, Header, header_bytes, header_room, read_header
from aireprune.files.shapes import elements
from aireprune.files.weights import Size
from aireprune.files.writing.copying import copy_range, read_at, write_at
from aireprune.files.writing.finite import check_finite, edited


class Raw(NamedTuple):
    """A tensor as it is stored: safetensors code, shape, bytes (for formats NumPy does not have)."""

    dtype: str
    shape: Shape
    data: bytes


class SafetensorsFile:
    """The tensors of one file; a checkpoint by itself or a shard of a larger one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notices: list[str] = []
        self.header: Header = read_header(path)
        self.shapes: dict[str, Shape] = {name: entry.shape for name, entry in self.header.entries.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        with open_plain(self.path) as file:
            return self._read(file.fileno(), name)

    def copy_edited(self, target: Path, edits: Mapping[str, Edit]) -> Size:
        """Write an edited copy to `target`, which is new or empty."""
        entries, metadata = self._entries(edits), self.header.metadata
        room = header_room(entries, metadata)
        placed: dict[str, Entry] = {}
        place = 0
        with open_plain(self.path) as source, target.open("wb") as out:
            for to_edit, run in groupby(_layout(entries, bool(edits)), key=edits.__contains__):
                if to_edit:
                    for name in run:
                        values = self._edited(source.fileno(), name, edits[name])
                        data = encode(values, entries[name].dtype, self._where(name))
                        write_at(out.fileno(), data.data, room + place)
                        placed[name] = Entry(entries[name].dtype, values.shape, place, place + data.size)
                        place += data.size
                    continue
                for names in _adjacent(entries, run):
                    first, last = entries[names[0]], entries[names[-1]]
                    start, size = self.header.data + first.start, last.end - first.start
                    copy_range(source.fileno(), out.fileno(), start, size, room + place, str(self.path))
                    placed |= {name: entries[name].moved(place - first.start) for name in names}
                    place += size
            ordered = {name: placed[name] for name in entries}
            write_at(out.fileno(), header_bytes(ordered, metadata, room, align=8), 0)
        return Size(place, sum(elements(entry.shape) for entry in placed.values()))

    def _entries(self, edits: Mapping[str, Edit]) -> dict[str, Entry]:
        """Those of the file, and of new tensors, which come last and have no place in it."""
        old = self.header.entries
        end = max((entry.end for entry in old.values()), default=0)
        new = {
            name: Entry(old[edit.like].dtype, edit.values.shape, end, end)
            for name, edit in edits.items()
            if isinstance(edit, Added)
        }
        return {**old, **new}

    def _edited(self, descriptor: int, name: str, edit: Edit) -> np.ndarray:
        if isinstance(edit, Added):
            check_finite(edit.values, self._where(name))
            return edit.values
        return edited(self._read(descriptor, name), edit, self._where(name))

    def _where(self, name: str) -> str:
        return f"{self.path}: tensor {shown(name)}"

    def _read(self, descriptor: int, name: str) -> np.ndarray:
        entry = self.header.entries[name]
        raw = read_at(descriptor, self.header.data + entry.start, entry.size, str(self.path))
        return decode(raw, entry.dtype, entry.shape, self._where(name))


def _layout(entries: Mapping[str, Entry], edited: bool) -> list[str]:
    """Tensor names in the order of their bytes in the copy.

    That is the order of the source. Only where an edit changes sizes and element sizes are mixed, wide elements come
    first (as the reference implementation has it), so that every tensor stays aligned.
    """
    names = sorted(entries, key=lambda name: (entries[name].start, entries[name].end))
    if edited:
        names.sort(key=lambda name: -BITS.get(entries[name].dtype, 0))
    return names


def _adjacent(entries: Mapping[str, Entry], names: Iterable[str]) -> Iterator[list[str]]:
    """Split names into runs whose bytes follow each other in the source."""
    run: list[str] = []
    for name in names:
        if run and entries[run[-1]].end != entries[name].start:
            yield run
            run = []
        run.append(name)
    if run:
        yield run


def write_arrays(
    target: Path, arrays: Mapping[str, np.ndarray | Raw], metadata: Mapping[str, str] | None = None
) -> Size:
    """A new safetensors file from arrays in memory, wide elements first. All values must be finite."""
    entries: dict[str, Entry] = {}
    place = 0
    for name in sorted(arrays, key=lambda name: -BITS.get(_code(arrays[name]), 0)):
        value = arrays[name]
        size = len(value.data) if isinstance(value, Raw) else value.nbytes
        entries[name] = Entry(_code(value), tuple(value.shape), place, place + size)
        place += size
    header = header_bytes(entries, metadata, align=8)
    with target.open("wb") as out:
        out.write(header)
        for name in entries:
            out.write(_finite_bytes(arrays[name], f"Tensor {shown(name)}"))
    return Size(place, sum(elements(entry.shape) for entry in entries.values()))


def _code(value: np.ndarray | Raw) -> str:
    return value.dtype if isinstance(value, Raw) else code_of(value.dtype)


def _finite_bytes(value: np.ndarray | Raw, where: str) -> bytes | memoryview:
    """The bytes of a tensor; those of formats that NumPy does not have are taken as they are."""
    if not isinstance(value, Raw):
        check_finite(value, where)
        return encode(value, _code(value), where).data
    if value.dtype == BFLOAT16 or value.dtype in NUMPY:
        check_finite(decode(np.frombuffer(value.data, np.uint8), value.dtype, tuple(value.shape), where), where)
    return value.data
