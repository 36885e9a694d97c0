"""safetensors files: values on demand, and edited copies streamed so that memory never holds more than one tensor.

A copy is written front to back. Runs of untouched tensors are handed to the kernel as one range; edited tensors are
read, edited and written one at a time. Their new sizes are only known then, so room for the header is left at the
start (whole pages, which makes the kernel's copies fast) and the header comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aireprune.files.base import Edit, Shape
from aireprune.files.copying import copy_range, read_at, write_at
from aireprune.files.dtypes import BITS, code_of, decode, encode
from aireprune.files.safetensors_header import Entry, Header, header_bytes, header_room, read_header
from aireprune.files.single import beside, check_names, read_config, write_beside


class Raw(NamedTuple):
    """A tensor as it is stored: safetensors code, shape, bytes (for formats NumPy does not have)."""

    dtype: str
    shape: Shape
    data: bytes


class Size(NamedTuple):
    """What a written file holds."""

    bytes: int
    elements: int


class SafetensorsFile:
    """The tensors of one file; a checkpoint by itself or a shard of a larger one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: Header = read_header(path)
        self.shapes: dict[str, Shape] = {name: entry.shape for name, entry in self.header.entries.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        with self.path.open("rb") as file:
            return self._read(file.fileno(), name)

    def copy_edited(self, target: Path, edits: Mapping[str, Edit]) -> Size:
        """Write an edited copy to `target`, which is new or empty."""
        entries, metadata = self.header.entries, self.header.metadata
        room = header_room(entries, metadata)
        placed: dict[str, Entry] = {}
        place = 0
        with self.path.open("rb") as source, target.open("wb") as out:
            for edited, run in groupby(self._layout(bool(edits)), key=edits.__contains__):
                for names in _adjacent(entries, run):
                    first, last = entries[names[0]], entries[names[-1]]
                    if not edited:
                        size = last.end - first.start
                        start = self.header.data + first.start
                        copy_range(source.fileno(), out.fileno(), start, size, room + place, str(self.path))
                        shift = place - first.start
                        for name in names:
                            old = entries[name]
                            placed[name] = Entry(old.dtype, old.shape, old.start + shift, old.end + shift)
                        place += size
                        continue
                    for name in names:
                        values = edits[name](self._read(source.fileno(), name))
                        data = encode(values, entries[name].dtype, f"{self.path}: tensor {name}")
                        write_at(out.fileno(), data.data, room + place)
                        placed[name] = Entry(entries[name].dtype, values.shape, place, place + data.size)
                        place += data.size
            ordered = {name: placed[name] for name in entries}
            write_at(out.fileno(), header_bytes(ordered, metadata, room, align=8), 0)
        return Size(place, sum(int(np.prod(entry.shape, dtype=np.int64)) for entry in placed.values()))

    def _read(self, descriptor: int, name: str) -> np.ndarray:
        entry = self.header.entries[name]
        raw = read_at(descriptor, self.header.data + entry.start, entry.size, str(self.path))
        return decode(raw, entry.dtype, entry.shape, f"{self.path}: tensor {name}")

    def _layout(self, edited: bool) -> list[str]:
        """Tensor names in the order of their bytes in the copy.

        That is the order of the source. Only where an edit changes sizes and element sizes are mixed, wide elements
        come first (as the reference implementation has it), so that every tensor stays aligned.
        """
        entries = self.header.entries
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
    """A new safetensors file from arrays in memory, wide elements first."""
    raws: dict[str, tuple[str, Shape, int]] = {}
    for name, value in arrays.items():
        if isinstance(value, Raw):
            raws[name] = (value.dtype, tuple(value.shape), len(value.data))
        else:
            raws[name] = (code_of(value.dtype), value.shape, value.nbytes)
    entries: dict[str, Entry] = {}
    place = 0
    for name in sorted(raws, key=lambda name: -BITS.get(raws[name][0], 0)):
        dtype, shape, size = raws[name]
        entries[name] = Entry(dtype, shape, place, place + size)
        place += size
    header = header_bytes(entries, metadata, align=8)
    with target.open("wb") as out:
        out.write(header)
        for name, entry in entries.items():
            value = arrays[name]
            out.write(value.data if isinstance(value, Raw) else encode(value, entry.dtype, f"Tensor {name}").data)
    return Size(place, sum(int(np.prod(entry.shape, dtype=np.int64)) for entry in entries.values()))


class SafetensorsCheckpoint(SafetensorsFile):
    """A single .safetensors file with NAME.json beside it."""

    kind = "safetensors"

    def __init__(self, path: Path, config: Mapping[str, Any] | str | Path | None = None) -> None:
        super().__init__(path)
        self.config: Mapping[str, Any] = read_config(path, config, beside(path, "json"))
        self.notices: list[str] = []

    def write(
        self,
        target: Path,
        edits: Mapping[str, Edit],
        config: Mapping[str, Any] | None = None,
        extras: Mapping[str, str] | None = None,
        overwrite: bool = False,
    ) -> None:
        """See `Checkpoint.write`."""
        check_names(self.path, edits, self.shapes)

        def write(temporary: Path) -> None:
            self.copy_edited(temporary, edits)

        write_beside(self.path, self.kind, target, self.config if config is None else config, extras, overwrite, write)
