"""Flax checkpoints: a tree of named arrays in msgpack, as a bare parameter tree or a saved train state.

Names are the path in the tree joined with dots: params.encoder.layers_0.seq.B. The state of the optimiser has the
shapes of the unpruned parameters, so it is not read and is left out of a copy.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from aireprune.arrays import Edit, Shape
from aireprune.errors import AireError, shown
from aireprune.files.flax.codec import CHUNKED, Array, as_array, encode, map_header, pack_array
from aireprune.files.flax.msgpack_tree import Map, Node, Parser, Span
from aireprune.files.reading import open_plain
from aireprune.files.shapes import elements
from aireprune.files.weights import Keys, Size, named
from aireprune.files.writing.copying import copy_range, read_at
from aireprune.files.writing.finite import edited

OPTIMISER = {"opt_state", "optimizer", "optimizer_state", "opt_states"}


class FlaxFile:
    """A msgpack file written by flax.serialization.to_bytes or flax.training.checkpoints."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_plain(path) as file:
            if not file.read(1):
                raise AireError(f"{path} is empty; expected a Flax checkpoint (msgpack).")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                self._tree = self._parsed(data)
                self._dropped = _optimisers(self._tree)
                self._arrays = named(path, "arrays", self._leaves(data, self._tree, ()))
        if not self._arrays:
            raise AireError(f"{path} holds no arrays; expected a Flax parameter tree or train state.")
        self.shapes: dict[str, Shape] = {name: array.shape for name, (_, array) in self._arrays.items()}
        self.notices: list[str] = []
        if self._dropped:
            names = ", ".join(".".join(map(str, where)) for where in self._dropped)
            self.notices.append(f"{shown(path.name)}: the optimiser state ({shown(names)}) is left out of a copy.")

    def __getitem__(self, name: str) -> np.ndarray:
        with open_plain(self.path) as file:
            return self._read(file, name)

    def copy_edited(self, target: Path, edits: Mapping[str, Edit]) -> Size:
        """Write an edited copy to `target`. Without edits and without an optimiser state it has the same bytes."""
        final = dict(self.shapes)
        with open_plain(self.path) as source, target.open("wb") as out:

            def pack(name: str) -> bytes:
                where, array = self._where(name), self._arrays[name][1]
                values = edited(self._read(source, name), edits[name], where)
                final[name] = values.shape
                return encode(pack_array(values, array.dtype, where))

            places = {self._arrays[name][0]: name for name in edits}
            changed = {where[:depth] for where in (*places, *self._dropped) for depth in range(len(where))}
            for piece in _merged(_pieces(self._tree, (), changed, places, self._dropped)):
                if isinstance(piece, Span):
                    count = piece.end - piece.start
                    copy_range(source.fileno(), out.fileno(), piece.start, count, out.tell(), str(self.path))
                    out.seek(count, 1)
                else:
                    out.write(piece if isinstance(piece, bytes) else pack(piece))
                    out.flush()
            total = out.tell()
        return Size(total, sum(elements(shape) for shape in final.values()))

    def _read(self, file: BinaryIO, name: str) -> np.ndarray:
        def read(span: Span) -> np.ndarray:
            return read_at(file.fileno(), span.start, span.end - span.start, str(self.path))

        return self._arrays[name][1].values(read, self._where(name))

    def _where(self, name: str) -> str:
        return f"{self.path}: tensor {shown(name)}"

    def _parsed(self, data: Any) -> Map:
        try:
            tree = Parser(data, Span(0, len(data))).whole()
        except ValueError as error:
            raise AireError(f"{self.path} is not a Flax checkpoint, or it is truncated: {shown(error)}.") from None
        if not isinstance(tree, Map):
            kind = type(tree).__name__.lower()
            raise AireError(f"{self.path} is not a Flax checkpoint: expected a map of named arrays, found a {kind}.")
        return tree

    def _leaves(self, data: Any, node: Node, where: Keys) -> Iterator[tuple[Keys, Array]]:
        """All arrays under a node, without those of optimisers."""
        try:
            array = as_array(data, node)
        except ValueError as error:
            name = shown(".".join(map(str, where)))
            raise AireError(f"{self.path}: array {name} is damaged ({shown(error)}).") from None
        if array is not None:
            yield where, array
        elif isinstance(node, Map) and CHUNKED not in node.entries:
            for key, entry in node.entries.items():
                if (*where, key) not in self._dropped:
                    yield from self._leaves(data, entry.value, (*where, key))


def _optimisers(tree: Map) -> set[Keys]:
    """Where optimiser states are. A train state may be wrapped once."""
    found: set[Keys] = {(key,) for key in tree.entries if key in OPTIMISER}
    for key, entry in tree.entries.items():
        if (key,) not in found and isinstance(entry.value, Map) and "params" in entry.value.entries:
            found |= {(key, inner) for inner in entry.value.entries if inner in OPTIMISER}
    return found


def _pieces(
    node: Node, where: Keys, changed: set[Keys], places: Mapping[Keys, str], dropped: set[Keys]
) -> Iterator[Span | bytes | str]:
    """What a copy of a node consists of: parts of the source, new bytes, and names of arrays to edit."""
    if where in places:
        yield places[where]
    elif where not in changed or not isinstance(node, Map):
        yield Span(node.start, node.end)
    else:
        kept = [entry for key, entry in node.entries.items() if (*where, key) not in dropped]
        yield node.header if len(kept) == len(node.entries) else map_header(len(kept))
        for entry in kept:
            yield entry.place
            yield from _pieces(entry.value, (*where, entry.key), changed, places, dropped)


def _merged(pieces: Iterator[Span | bytes | str]) -> Iterator[Span | bytes | str]:
    """The same pieces, with neighbouring parts of the source as one."""
    last: Span | None = None
    for piece in pieces:
        if isinstance(piece, Span) and last is not None and last.end == piece.start:
            last = Span(last.start, piece.end)
            continue
        if last is not None:
            yield last
        last = piece if isinstance(piece, Span) else None
        if last is None:
            yield piece
    if last is not None:
        yield last
