"""The header of a safetensors file: 8 bytes with its length, JSON with every tensor's type, shape and place, then data.

Files come from anywhere, so everything the header claims is checked before a byte of data is read: its length, each
shape against its bytes, and that the tensors tile the data without gap or overlap.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aireprune.errors import AireError, shown
from aireprune.files.dtypes import BITS
from aireprune.files.json_text import parse_json
from aireprune.files.reading import open_plain
from aireprune.files.shapes import MOST, elements, is_shape
from aireprune.files.weights import LONGEST_NAME

MAX_HEADER = 100_000_000  # the limit of the reference implementation
PAGE = 4096
SMALL_FILE = 1 << 24  # bytes of tensors up to which alignment is not worth a page
METADATA = "__metadata__"
FIELDS = {"dtype", "shape", "data_offsets"}
HALVES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor: its type, shape and where its bytes are, counted from the start of the data."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def moved(self, by: int) -> Entry:
        """The same tensor, so many bytes further on."""
        return Entry(self.dtype, self.shape, self.start + by, self.end + by)


@dataclass(frozen=True)
class Header:
    """All tensors of a file in the order of its JSON, its free-text metadata, and where the data begins."""

    entries: Mapping[str, Entry]
    metadata: Mapping[str, str] | None
    data: int


def read_header(path: Path) -> Header:
    """Read and check the header of a file."""
    with open_plain(path) as file:
        total = os.fstat(file.fileno()).st_size
        if total == 0:
            raise AireError(f"{path} is empty; expected a safetensors file.")
        if total < 8:
            raise AireError(f"{path} has only {total} bytes; it is no safetensors file, or it is truncated.")
        length = int.from_bytes(file.read(8), "little")
        if file.read(1) != b"{" or not 2 <= length <= MAX_HEADER:
            raise AireError(f"{path} is not a safetensors file: it does not begin with the length of a JSON header.")
        if 8 + length > total:
            raise AireError(f"{path} is truncated: its header needs {8 + length} bytes, the file has {total}.")
        file.seek(8)
        text = file.read(length)
    try:
        raw = parse_json(text, _no_duplicates)
    except ValueError as error:
        raise AireError(f"{path} has an unreadable safetensors header ({error}).") from None
    metadata = raw.pop(METADATA, None)
    if metadata is not None and not _is_text_map(metadata):
        raise AireError(f"{path}: {METADATA} in its header is not a map from text to text.")
    entries = {name: _entry(path, name, value) for name, value in raw.items()}
    _check_tiling(path, entries, total - 8 - length)
    return Header(entries, metadata, 8 + length)


def header_bytes(
    entries: Mapping[str, Entry], metadata: Mapping[str, str] | None, room: int = 0, align: int = PAGE
) -> bytes:
    """A header whose data begins on a multiple of `align`, padded with spaces to `room` bytes if that is more."""
    items = [] if metadata is None else [f"{_quoted(METADATA)}:{_quoted(dict(metadata))}"]
    items += [
        f'{_quoted(name)}:{{"dtype":{_quoted(entry.dtype)},"shape":{_quoted(entry.shape)},'
        f'"data_offsets":[{entry.start},{entry.end}]}}'
        for name, entry in entries.items()
    ]
    text = f"{{{','.join(items)}}}".encode()
    length = max(room, -(-(8 + len(text)) // align) * align) - 8
    if length > MAX_HEADER:
        raise AireError(
            f"{len(entries)} tensors need a safetensors header of {length} bytes; at most {MAX_HEADER} are allowed."
        )
    return length.to_bytes(8, "little") + text.ljust(length)


def header_room(entries: Mapping[str, Entry], metadata: Mapping[str, str] | None) -> int:
    """Bytes that are enough for the header whatever sizes the tensors will turn out to have.

    Data of large files begins on a page, which lets the kernel copy whole pages; small ones are kept small.
    """
    small = sum(entry.size for entry in entries.values()) < SMALL_FILE
    huge = 10**9 if small else 10**15
    widest = {name: Entry(entry.dtype, (huge,) * (len(entry.shape) + 2), huge, huge) for name, entry in entries.items()}
    return len(header_bytes(widest, metadata, align=8 if small else PAGE))


def _quoted(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{shown(name)} occurs twice")
        found[name] = value
    return found


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_text(key) and _is_text(text) for key, text in value.items())


def _is_text(value: Any) -> bool:
    """Whether a value is text that can be written again: JSON can spell halves of letters."""
    return isinstance(value, str) and not HALVES.search(value)


def _is_place(value: Any) -> bool:
    """Whether a value is where bytes begin and end; files may be of any size."""
    numbers = isinstance(value, list) and len(value) == 2 and all(type(end) is int for end in value)
    return numbers and 0 <= value[0] <= value[1] <= MOST


def _entry(path: Path, name: str, raw: Any) -> Entry:
    """The entry of one tensor, checked by itself."""
    if not _is_text(name) or len(name) > LONGEST_NAME:
        raise _wrong(path, name, f"has a name that is not valid Unicode or has more than {LONGEST_NAME} characters.")
    if not isinstance(raw, dict) or raw.keys() != FIELDS or not _is_text(raw["dtype"]):
        raise _wrong(path, name, "has a malformed entry in the header; expected dtype, shape and data_offsets.")
    shape, offsets = raw["shape"], raw["data_offsets"]
    if not is_shape(shape) or not _is_place(offsets):
        raise _wrong(path, name, f"has an impossible shape {shown(shape)} or place {shown(offsets)}.")
    entry = Entry(raw["dtype"], tuple(shape), offsets[0], offsets[1])
    bits = elements(shape) * BITS.get(entry.dtype, 1)
    if bits != 8 * entry.size if entry.dtype in BITS else bits > 8 * entry.size:
        needed = f"{bits / 8:g}" if entry.dtype in BITS else f"at least {bits / 8:g}"
        kind = shown(entry.dtype)
        raise _wrong(path, name, f"has {entry.size} bytes, but shape {shape} as {kind} needs {needed}.")
    return entry


def _wrong(path: Path, name: str, what: str) -> AireError:
    return AireError(f"{path}: tensor {shown(name)} {what}")


def _check_tiling(path: Path, entries: Mapping[str, Entry], size: int) -> None:
    """The tensors must cover the data without gap or overlap."""
    place, previous = 0, ""
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.end > size:
            raise AireError(
                f"{path} is truncated: tensor {shown(name)} ends at byte {entry.end} of the data, which has {size}."
            )
        if entry.start != place:
            before = f"tensor {shown(previous)}" if place else "the header"
            if entry.start < place:
                raise _wrong(path, name, f"overlaps with {before}.")
            gap = entry.start - place
            raise AireError(f"{path}: {gap} bytes between {before} and tensor {shown(name)} belong to no tensor.")
        place, previous = entry.end, name
    if place != size:
        before = f"tensor {shown(previous)}" if place else "the header"
        raise AireError(f"{path}: {size - place} bytes after {before} belong to no tensor.")
