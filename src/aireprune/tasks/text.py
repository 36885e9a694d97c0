"""LRA's Text: IMDB reviews as bytes, positive or negative."""

from __future__ import annotations

import json
import lzma

import numpy as np

from aireprune.tasks.base import Split, Task, find_data, hold_out, tokens

LENGTH, MINI_LENGTH = 4096, 512


def text() -> Task:
    """Reviews cut to 4,096 bytes: 22,500 training, 2,500 validation, 25,000 test."""
    return _imdb("text", LENGTH)


def text_mini() -> Task:
    """The same reviews cut to 512 bytes; 5,000 of the test reviews."""
    return _imdb("text-mini", MINI_LENGTH, 5000)


def _imdb(name: str, length: int, test_count: int | None = None) -> Task:
    full, test = (_reviews(part, length) for part in ("train", "test"))
    train, validation = hold_out(full, 2500)
    if test_count is not None:
        test = hold_out(test, test_count)[1]
    return Task(name, length, 256, 2, tokens, train, validation, test)


def _reviews(part: str, length: int) -> Split:
    path = find_data("text", (f"imdb_{part}.jsonl.xz",), "Put the IMDB reviews there (one {label, text} per line).")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return padded_bytes([row["text"].encode() for row in rows], [row["label"] for row in rows], length)


def padded_bytes(texts: list[bytes], labels: list[int], length: int) -> Split:
    """Texts cut to `length` bytes and padded with byte 0, which no text has."""
    x, lengths = np.zeros((len(texts), length), np.uint8), np.empty(len(texts), np.int64)
    for row, data in enumerate(texts):
        part = data[:length] or b" "
        x[row, : len(part)] = np.frombuffer(part, np.uint8)
        lengths[row] = len(part)
    return Split(x, np.asarray(labels, np.int64), lengths)
