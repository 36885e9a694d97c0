"""A task from one .npz file of your own: arrays train_x, train_y, validation_x, validation_y, test_x, test_y."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from aireprune.errors import AireError
from aireprune.tasks.base import BYTES, Split, Task, tokens
from aireprune.tasks.numpy_files import read_npz

PARTS = ("train", "validation", "test")
NAMES = {f"{part}_{kind}" for part in PARTS for kind in ("x", "y", "lengths")}
LARGEST = 2**31 - 1  # token or class


def own_task(path: Path) -> Task:
    """x: floats (N, L, d) or (N, L), taken as they are, or whole numbers (N, L), taken as tokens. y: classes (N,), or the
    next token at every step (N, L). PART_lengths (N,): valid steps, where sequences are padded."""
    try:
        arrays = read_npz(path, lambda names: [name for name in names if name in NAMES])
    except (OSError, ValueError) as problem:
        raise AireError(f"{path} is not an .npz file of plain arrays: {problem}.") from None
    splits = [_split(arrays, part, path) for part in PARTS]
    kinds = {(split.x.dtype.kind, split.x.shape[1:], split.y.ndim) for split in splits}
    if len(kinds) > 1:
        raise AireError(f"{path}: the arrays of {', '.join(PARTS)} differ in type or in the shape of an example.")
    x = [split.x for split in splits]
    length, classes = x[0].shape[1], int(max(split.y.max() for split in splits)) + 1
    if x[0].dtype.kind == "f":
        return Task(str(path), length, x[0].shape[2], classes, _as_they_are, *splits, at_least=True)
    known = int(max(part.max() for part in x)) + 1
    bytes_per_token = 1.0 if max(known, classes) <= BYTES else None
    return Task(str(path), length, known, classes, tokens, *splits, at_least=True, bytes_per_token=bytes_per_token)


def _as_they_are(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # infinities are refused where examples are judged
        return np.ascontiguousarray(x, np.float32)


def _split(data: Mapping[str, np.ndarray], part: str, path: Path) -> Split:
    for name in (f"{part}_x", f"{part}_y"):
        if name not in data:
            raise AireError(f"{path} has no array {name}. A task of your own needs x and y of {', '.join(PARTS)}.")
    x, y = data[f"{part}_x"], data[f"{part}_y"]
    whole, answers = np.issubdtype(x.dtype, np.integer), len(y) if y.ndim else 0
    if not x.size or len(x) != answers or x.ndim not in ((2,) if whole else (2, 3)) or x.dtype.kind not in "fiu":
        raise AireError(
            f"{path}: {part}_x has shape {x.shape} and type {x.dtype} for {answers} answers; expected floats (N, L, d) or "
            "(N, L), or whole numbers (N, L)."
        )
    if whole and not _numbered(x):
        raise AireError(f"{path}: {part}_x holds tokens that are negative or larger than {LARGEST}.")
    if not np.issubdtype(y.dtype, np.integer) or y.shape not in ((len(x),), x.shape[:2]) or not _numbered(y):
        raise AireError(f"{path}: {part}_y has shape {y.shape} and type {y.dtype}; expected classes, (N,) or (N, L).")
    lengths = data.get(f"{part}_lengths")
    if lengths is not None and not _lengths(lengths, x):
        raise AireError(f"{path}: {part}_lengths must be (N,) numbers from 1 to {x.shape[1]}.")
    return Split(x if whole or x.ndim == 3 else x[..., None], y.astype(np.int64), lengths)


def _numbered(values: np.ndarray) -> bool:
    return bool(values.min() >= 0 and values.max() <= LARGEST)


def _lengths(lengths: np.ndarray, x: np.ndarray) -> bool:
    whole = np.issubdtype(lengths.dtype, np.integer) and lengths.shape == (len(x),)
    return bool(whole and lengths.min() >= 1 and lengths.max() <= x.shape[1])
