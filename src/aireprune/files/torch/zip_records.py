"""The records of a zip archive: where their bytes are, their checksums, and their contents if they are compressed.

Archives come from anywhere. Everything the directory claims is checked: that each record lies inside the file and
apart from the others, and, before it is unpacked, how large it will be.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from aireprune.errors import AireError, shown

STORED, DEFLATED = 0, 8
LARGEST_DIRECTORY = 32 << 20
END, END64, END64_PLACE, ENTRY, LOCAL = b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\1\2", b"PK\3\4"
UNKNOWN = 0xFFFFFFFF  # a size that is too large for its field, given elsewhere
CHUNK = 4 << 20
ENCRYPTED, FOLDER = 1, 16  # a flag and an attribute; PyTorch reads no bytes of a record that is called a folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One file in an archive."""

    name: str
    method: int
    start: int  # of its bytes in the archive
    packed: int  # bytes there
    size: int  # bytes unpacked
    crc: int  # 0 if it was not computed, which PyTorch can be told to do

    @property
    def stored(self) -> bool:
        return self.method == STORED


def read_directory(path: Path, file: BinaryIO) -> dict[str, Record]:
    """All records of an archive by name."""
    total = file.seek(0, os.SEEK_END)
    count, size, place = _find_directory(path, file, total)
    if size > LARGEST_DIRECTORY or place + size > total:
        raise _damaged(path, f"its directory claims {size} bytes at {place}")
    file.seek(place)
    raw = file.read(size)
    records: dict[str, Record] = {}
    at = 0
    for _ in range(count):
        try:
            record, at = _entry(raw, at, file)
        except (struct.error, UnicodeDecodeError, IndexError):
            raise _damaged(path, "its directory is damaged") from None
        if record.name in records:
            raise _damaged(path, f"{shown(record.name)} occurs twice")
        if record.method not in (STORED, DEFLATED):
            raise _damaged(
                path, f"{shown(record.name)} is encrypted, a folder, or compressed in a way that is not read"
            )
        records[record.name] = record
    _check_apart(path, records, place)
    return records


def unpack(path: Path, file: BinaryIO, record: Record, most: int) -> bytes:
    """The bytes of a record, which must not be more than `most`; its checksum is compared."""
    if record.size > most or record.packed > most:
        raise _damaged(path, f"{shown(record.name)} claims {record.size} bytes, and at most {most} are expected")
    file.seek(record.start)
    data = file.read(record.packed)
    if not record.stored:
        try:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, record.size + 1)
        except zlib.error as error:
            raise _damaged(path, f"{shown(record.name)} cannot be unpacked: {error}") from None
    if len(data) != record.size or (record.crc and zlib.crc32(data) != record.crc):
        raise _damaged(path, f"the checksum of {shown(record.name)} is wrong")
    return data


def check_stored(path: Path, file: BinaryIO, record: Record) -> None:
    """Compare the checksum of a record that is not compressed, without keeping its bytes."""
    if not record.crc:
        return
    file.seek(record.start)
    crc, left = 0, record.size
    while left > 0 and (chunk := file.read(min(CHUNK, left))):
        crc, left = zlib.crc32(chunk, crc), left - len(chunk)
    if left or crc != record.crc:
        raise _damaged(path, f"the checksum of {shown(record.name)} is wrong")


def _find_directory(path: Path, file: BinaryIO, total: int) -> tuple[int, int, int]:
    """How many entries the directory has, how many bytes, and where it begins."""
    first = max(0, total - (1 << 16) - 22)
    file.seek(first)
    tail = file.read()
    at = tail.rfind(END)
    if at < 0 or at + 22 > len(tail):
        raise _damaged(path, "its directory is missing")
    count, size, place = struct.unpack("<HII", tail[at + 10 : at + 20])
    if at >= 20 and tail[at - 20 : at - 16] == END64_PLACE:
        file.seek(min(struct.unpack("<Q", tail[at - 12 : at - 4])[0], total))
        end = file.read(56)
        if len(end) < 56 or end[:4] != END64:
            raise _damaged(path, "its directory is missing")
        count, size, place = struct.unpack("<QQQ", end[32:56])
    if count * 46 > size:
        raise _damaged(path, f"its directory claims {count} entries in {size} bytes")
    return count, size, place


def _entry(raw: bytes, at: int, file: BinaryIO) -> tuple[Record, int]:
    """The entry at one place of the directory, and where the next one is."""
    if raw[at : at + 4] != ENTRY:
        raise IndexError
    flags, method, _, crc, packed, size, name, extra, comment = struct.unpack("<HHIIIIHHH", raw[at + 8 : at + 34])
    attributes, local = struct.unpack("<II", raw[at + 38 : at + 46])
    named = at + 46 + name
    packed, size, local = _wide(raw[named : named + extra], size, packed, local)
    file.seek(local)
    header = file.read(30)
    if header[:4] != LOCAL:
        raise IndexError
    start = local + 30 + sum(struct.unpack("<HH", header[26:30]))
    record = Record(
        name=raw[at + 46 : named].decode(),
        method=-1 if flags & ENCRYPTED or attributes & FOLDER else method,
        start=start,
        packed=packed,
        size=size,
        crc=crc,
    )
    return record, named + extra + comment


def _wide(extra: bytes, size: int, packed: int, local: int) -> tuple[int, int, int]:
    """The packed size, size and place of an entry, from its extra field where they are too large for their own."""
    fields = iter(())
    while len(extra) >= 4:
        kind, length = struct.unpack("<HH", extra[:4])
        if kind == 1:
            fields = iter(struct.unpack(f"<{length // 8}Q", extra[4 : 4 + length // 8 * 8]))
        extra = extra[4 + length :]
    size, packed, local = (next(fields, value) if value == UNKNOWN else value for value in (size, packed, local))
    return packed, size, min(local, 1 << 62)


def _check_apart(path: Path, records: dict[str, Record], end: int) -> None:
    """No record may overlap with another or with the directory."""
    place, previous = 0, ""
    for record in sorted(records.values(), key=lambda record: (record.start, record.packed)):
        if record.start < place or record.start + record.packed > end:
            other = f"with {shown(previous)}" if record.start < place else "the end of the data"
            raise _damaged(path, f"{shown(record.name)} overlaps {other}")
        if record.stored and record.packed != record.size:
            raise _damaged(path, f"{shown(record.name)} has two sizes")
        place, previous = record.start + record.packed, record.name


def _damaged(path: Path, reason: str) -> AireError:
    return AireError(f"{path} is damaged or truncated: {reason}. Download or save it again.")
