"""Language modelling over bytes: predict the next byte, judged in bits per byte."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np

from aireprune.errors import AireError
from aireprune.tasks.base import Split, Task, find_data, tokens

LENGTH, MINI_LENGTH = 1024, 256
SHAKESPEARE = ("tinyshakespeare.txt.xz", "tinyshakespeare.txt")
FOLDERS = ("wikitext-2-raw", "wikitext-2-raw-v1")
HOW = (
    "Unpack wikitext-2-raw-v1.zip there (folder wikitext-2-raw with wiki.train.raw, wiki.valid.raw and wiki.test.raw)."
)


def lm() -> Task:
    """WikiText-2 (raw) in windows of 1,024 bytes, with its own three splits."""
    return Task("lm", LENGTH, 256, 256, tokens, *(_wikitext(part) for part in ("train", "valid", "test")))


def lm_mini() -> Task:
    """Tiny Shakespeare in windows of 256 bytes: the first 90 % to train, 5 % to validate, the last 5 % to test."""
    path = find_data("lm-mini", SHAKESPEARE, "Put Tiny Shakespeare there.")
    text = read_bytes(path)
    if len(text) < 40 * MINI_LENGTH:
        raise AireError(f"{path} has {len(text)} bytes, too few for windows of {MINI_LENGTH} in three splits.")
    cuts = [int(0.9 * len(text)), int(0.95 * len(text))]
    return Task(
        "lm-mini", MINI_LENGTH, 256, 256, tokens, *(windows(part, MINI_LENGTH) for part in np.split(text, cuts))
    )


def places(part: str) -> tuple[str, ...]:
    names = [f"{folder}/wiki.{part}.{end}" for folder in FOLDERS for end in ("raw", "tokens")]
    return (*names, f"wikitext2_{part}.txt.xz", f"wikitext2_{part}.txt")


def _wikitext(part: str) -> Split:
    path = find_data("lm", places(part), HOW)
    text = read_bytes(path)
    if len(text) <= LENGTH:
        raise AireError(f"{path} has {len(text)} bytes, too few for one window of {LENGTH}. {HOW}")
    return windows(text, LENGTH)


def read_bytes(path: Path) -> np.ndarray:
    """The file's bytes (N,), unpacked if its name ends in .xz."""
    try:
        packed = path.read_bytes()
        data = lzma.decompress(packed) if path.suffix == ".xz" else packed
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise AireError(f"{path} cannot be read ({error}).") from error
    return np.frombuffer(data, np.uint8)


def windows(text: np.ndarray, length: int) -> Split:
    """Consecutive windows and the byte after every step; what does not fill a window is left out."""
    count = (len(text) - 1) // length
    x, y = text[: count * length], text[1 : count * length + 1]
    return Split(x.reshape(count, length), y.reshape(count, length).astype(np.int64))
