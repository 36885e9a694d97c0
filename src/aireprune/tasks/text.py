"""LRA's Text: IMDB reviews as bytes, positive or negative."""

from __future__ import annotations

import json
import lzma
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np

from aireprune.errors import AireError
from aireprune.tasks.base import Split, Task, find_data, hold_out, pad, tokens

LENGTH, MINI_LENGTH = 4096, 512
HOW = (
    "Unpack aclImdb_v1.tar.gz of ai.stanford.edu/~amaas/data/sentiment there (or put the archive itself there), or put "
    "imdb_train.jsonl and imdb_test.jsonl there with one {label, text} per line, as `datasets` exports them."
)
Review = tuple[int, bytes]
DAMAGE = (  # what damaged JSON, .xz and .tar.gz files lead to
    *(AttributeError, EOFError, KeyError, OSError, RecursionError, TypeError, ValueError),
    *(lzma.LZMAError, struct.error, tarfile.TarError, zlib.error),
)


def text() -> Task:
    """IMDB reviews cut to 4,096 bytes: 22,500 training, 2,500 validation, 25,000 test."""
    return _imdb("text", LENGTH)


def text_mini() -> Task:
    """IMDB reviews cut to 512 bytes: 22,500 training, 2,500 validation, 5,000 test."""
    return _imdb("text-mini", MINI_LENGTH, 5000)


def _imdb(name: str, length: int, test_count: int | None = None) -> Task:
    full, test = (padded_bytes(reviews(part, name), length) for part in ("train", "test"))
    train, validation = hold_out(full, len(full) // 10)
    if test_count is not None:
        test = hold_out(test, test_count)[1]
    return Task(name, length, 256, 2, tokens, train, validation, test)


def places(part: str) -> tuple[str, ...]:
    exported = (f"imdb_{part}.jsonl.xz", f"imdb_{part}.jsonl", f"imdb/{part}.jsonl")
    return (*exported, f"aclImdb/{part}", "aclImdb_v1.tar.gz")


def reviews(part: str, task: str) -> list[Review]:
    """(label, text) of every review of "train" or "test", from whichever of the known places is there."""
    path = find_data(task, places(part), HOW)
    try:
        found = _read(path, part)
    except DAMAGE as error:
        raise AireError(f"The IMDB reviews in {path} cannot be read ({error!r}). {HOW}") from error
    if not found:
        raise AireError(f"{path} holds no reviews. {HOW}")
    return found


def _read(path: Path, part: str) -> list[Review]:
    if path.is_dir():
        return read_folder(path)
    return read_archive(path, part) if path.name.endswith(".tar.gz") else read_jsonl(path)


def read_jsonl(path: Path) -> list[Review]:
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.strip()]
    if not all(row["label"] in (0, 1) for row in rows):
        raise ValueError("a label is neither 0 nor 1")
    return [(int(row["label"]), row["text"].encode()) for row in rows]


def read_folder(folder: Path) -> list[Review]:
    """aclImdb/train or aclImdb/test: neg/*.txt and pos/*.txt; unsup is left out."""
    files = [(label, path) for label, kind in enumerate(("neg", "pos")) for path in _files(folder / kind)]
    return [(label, path.read_bytes()) for label, path in files]


def _files(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.txt"))
    if not found:
        raise AireError(f"{folder} has no .txt reviews. {HOW}")
    return found


def read_archive(path: Path, part: str) -> list[Review]:
    """The same from the official archive, without unpacking it; in the order of the unpacked folder."""
    kinds = {f"aclImdb/{part}/neg": 0, f"aclImdb/{part}/pos": 1}
    found: list[tuple[int, str, bytes]] = []
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            folder, _, name = member.name.removeprefix("./").rpartition("/")
            file = archive.extractfile(member) if folder in kinds and name.endswith(".txt") else None
            if file is not None:
                found.append((kinds[folder], name, file.read()))
    return [(label, data) for label, _, data in sorted(found, key=lambda entry: entry[:2])]


def padded_bytes(rows: list[Review], length: int) -> Split:
    """Texts cut to `length` bytes and padded with byte 0, which no text has."""
    x, lengths = pad([data for _, data in rows], length)
    return Split(x, np.array([label for label, _ in rows], np.int64), lengths)
