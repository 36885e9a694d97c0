"""Language modelling over bytes: predict the next byte, judged in bits per byte."""

from __future__ import annotations

import itertools
import lzma

import numpy as np

from aireprune.tasks.base import Split, Task, find_data, tokens

LENGTH = 256


def lm_mini() -> Task:
    """Tiny Shakespeare in windows of 256 bytes: the first 90 % to train, 5 % to validate, the last 5 % to test."""
    path = find_data("lm-mini", ("tinyshakespeare.txt.xz", "tinyshakespeare.txt"), "Put Tiny Shakespeare there.")
    data = path.read_bytes()
    text = np.frombuffer(lzma.decompress(data) if path.suffix == ".xz" else data, np.uint8)
    bounds = [0, int(0.9 * len(text)), int(0.95 * len(text)), len(text)]
    parts = [windows(text[a:b], LENGTH) for a, b in itertools.pairwise(bounds)]
    return Task("lm-mini", LENGTH, 256, 256, tokens, *parts)


def windows(text: np.ndarray, length: int) -> Split:
    """Consecutive windows and the byte after every step; what does not fill a window is left out."""
    count = (len(text) - 1) // length
    x, y = text[: count * length], text[1 : count * length + 1]
    return Split(x.reshape(count, length), y.reshape(count, length).astype(np.int64))
