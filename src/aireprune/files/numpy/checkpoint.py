"""NumPy archives (.npz), as numpy.savez writes a flattened tree of parameters: params/encoder/layers_0/seq/B.npy.

Nothing in them is unpickled: an array of Python objects is refused. Compressed arrays are read too, within a bound.
"""

from __future__ import annotations

import io
import re
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from aireprune.arrays import Edit, Shape
from aireprune.errors import AireError, shown
from aireprune.files.dtypes import cast
from aireprune.files.flax.checkpoint import OPTIMISER
from aireprune.files.reading import open_plain
from aireprune.files.shapes import elements, is_shape
from aireprune.files.torch.zip_records import Record, read_directory, unpack
from aireprune.files.weights import Keys, Size, named
from aireprune.files.writing.finite import edited

LONGEST_HEADER = 10_000  # bytes that say what an array is
ALWAYS_UNPACKED, MOST_UNPACKED = 64 << 20, 20  # bytes of compressed arrays; beyond them, times the size of the file
NUMBERS = "fciub"
TREE = "numpy.savez(FILE, **flax.traverse_util.flatten_dict(params, sep='/'))"


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An array of the archive, and where in its record the values begin."""

    record: Record
    shape: Shape
    dtype: np.dtype
    fortran: bool
    start: int


class NpzFile:
    """The arrays of one archive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_plain(path) as file:
            records = read_directory(path, file)
            self._check(records, file.seek(0, io.SEEK_END))
            self._records = {_keys(name): record for name, record in records.items()}
            self._dropped = {keys[0] for keys in self._records if keys[0] in OPTIMISER}
            self._arrays = named(path, "arrays", self._found(file))
        if not self._arrays:
            raise AireError(f"{path} holds no arrays; expected named parameters.")
        self.shapes: dict[str, Shape] = {name: stored.shape for name, (_, stored) in self._arrays.items()}
        self.notices: list[str] = []
        if self._dropped:
            names = ", ".join(sorted(self._dropped))
            self.notices.append(f"{shown(path.name)}: the optimiser state ({names}) is left out of a copy.")

    def __getitem__(self, name: str) -> np.ndarray:
        with open_plain(self.path) as file:
            return self._read(file, name)

    def copy_edited(self, target: Path, edits: Mapping[str, Edit]) -> Size:
        """Write an edited copy to `target`, in the same order, compressed where the source is."""
        final: dict[str, np.ndarray] = {}
        total = 0
        with open_plain(self.path) as source, zipfile.ZipFile(target, "w") as out:
            for name, (_, stored) in self._arrays.items():
                data = self._unpacked(source, stored)
                shape = stored.shape
                if name in edits:
                    where = f"{self.path}: array {shown(name)}"
                    final[name] = cast(
                        edited(self._values(stored, data, name), edits[name], where), stored.dtype, where
                    )
                    data, shape = _packed(final[name]), final[name].shape
                entry = zipfile.ZipInfo(stored.record.name)
                entry.compress_type = zipfile.ZIP_STORED if stored.record.stored else zipfile.ZIP_DEFLATED
                out.writestr(entry, data)
                total += elements(shape)
        return Size(target.stat().st_size, total)

    def _check(self, records: Mapping[str, Record], size: int) -> None:
        other = next((name for name in records if not name.endswith(".npy")), None)
        if other is not None:
            raise AireError(
                f"{self.path} is a zip archive with arrays and {shown(other)}; expected arrays (.npy) alone."
            )
        unpacked = sum(record.size for record in records.values() if not record.stored)
        if unpacked > max(ALWAYS_UNPACKED, MOST_UNPACKED * size):
            raise AireError(
                f"{self.path} has {size:,} bytes and claims to hold {unpacked:,} once it is unpacked, which no weights do."
            )

    def _found(self, file: BinaryIO) -> Iterator[tuple[Keys, Stored]]:
        for keys, record in self._records.items():
            if keys[0] not in self._dropped:
                yield keys, self._stored(file, record)

    def _stored(self, file: BinaryIO, record: Record) -> Stored:
        name = shown(record.name.removesuffix(".npy"))
        try:
            head = io.BytesIO(_head(file, record))
            version = npy.read_magic(head)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(head)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, zlib.error, tokenize.TokenError):
            raise AireError(f"{self.path} is damaged or truncated: array {name} cannot be read.") from None
        if dtype.hasobject:
            raise AireError(
                f"{self.path}: {name} holds Python objects in place of numbers (a pickle), and reading one could run code; "
                f"load it in the project it comes from and write {TREE}."
            )
        if not is_shape(shape) or record.size != head.tell() + elements(shape) * dtype.itemsize:
            raise AireError(f"{self.path} is damaged or truncated: array {name} of shape {shown(shape)} is not whole.")
        return Stored(record=record, shape=tuple(shape), dtype=dtype, fortran=fortran, start=head.tell())

    def _read(self, file: BinaryIO, name: str) -> np.ndarray:
        stored = self._arrays[name][1]
        return self._values(stored, self._unpacked(file, stored), name)

    def _unpacked(self, file: BinaryIO, stored: Stored) -> bytes:
        return unpack(self.path, file, stored.record, max(stored.record.size, stored.record.packed))

    def _values(self, stored: Stored, data: bytes, name: str) -> np.ndarray:
        if stored.dtype.kind not in NUMBERS:
            raise AireError(
                f"{self.path}: array {shown(name)} is stored as {stored.dtype}, whose values cannot be edited; convert it "
                "to float16 or wider first."
            )
        flat = np.frombuffer(data, stored.dtype, offset=stored.start)
        return flat.reshape(stored.shape, order="F" if stored.fortran else "C")


def _keys(name: str) -> Keys:
    return tuple(re.split(r"[/.]", name.removesuffix(".npy")))


def _head(file: BinaryIO, record: Record) -> bytes:
    """The first bytes of a record."""
    file.seek(record.start)
    packed = file.read(min(record.packed, LONGEST_HEADER))
    return packed if record.stored else zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, LONGEST_HEADER)


def _packed(values: np.ndarray) -> bytes:
    written = io.BytesIO()
    npy.write_array(written, np.ascontiguousarray(values).reshape(values.shape), allow_pickle=False)
    return written.getvalue()
