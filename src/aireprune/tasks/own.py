"""A task from one .npz file of your own: arrays train_x, train_y, validation_x, validation_y, test_x, test_y."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from aireprune.errors import AireError
from aireprune.tasks.base import Split, Task, tokens

PARTS = ("train", "validation", "test")


def own_task(path: Path) -> Task:
    """x: floats (N, L, d) or (N, L), taken as they are, or whole numbers (N, L), taken as tokens. y: classes (N,), or the
    next token at every step (N, L). PART_lengths (N,): valid steps, where sequences are padded."""
    try:
        with np.load(path, allow_pickle=False) as data:
            splits = [_split(data, part, path) for part in PARTS]
    except (OSError, ValueError) as problem:
        raise AireError(f"{path} is not an .npz file of plain arrays: {problem}.") from None
    kinds = {(split.x.dtype.kind, split.x.shape[1:], split.y.ndim) for split in splits}
    if len(kinds) > 1:
        raise AireError(f"{path}: the arrays of {', '.join(PARTS)} differ in type or in the shape of an example.")
    x = [split.x for split in splits]
    classes = int(max(split.y.max() for split in splits)) + 1
    if x[0].dtype.kind == "f":
        return Task(str(path), x[0].shape[1], x[0].shape[2], classes, _as_they_are, *splits)
    return Task(str(path), x[0].shape[1], int(max(part.max() for part in x)) + 1, classes, tokens, *splits)


def _as_they_are(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float32)


def _split(data: np.lib.npyio.NpzFile, part: str, path: Path) -> Split:
    for name in (f"{part}_x", f"{part}_y"):
        if name not in data.files:
            raise AireError(f"{path} has no array {name}. A task of your own needs x and y of {', '.join(PARTS)}.")
    x, y = data[f"{part}_x"], data[f"{part}_y"]
    whole = np.issubdtype(x.dtype, np.integer)
    if not len(x) or len(x) != len(y) or x.ndim not in ((2,) if whole else (2, 3)) or x.dtype.kind not in "fiu":
        raise AireError(
            f"{path}: {part}_x has shape {x.shape} and type {x.dtype} for {len(y)} answers; expected floats (N, L, d) or "
            "(N, L), or whole numbers (N, L)."
        )
    if not np.issubdtype(y.dtype, np.integer) or y.shape not in ((len(x),), x.shape[:2]) or y.min() < 0:
        raise AireError(f"{path}: {part}_y has shape {y.shape} and type {y.dtype}; expected classes, (N,) or (N, L).")
    lengths = data[f"{part}_lengths"] if f"{part}_lengths" in data.files else None
    if lengths is not None and (lengths.shape != (len(x),) or lengths.min() < 1 or lengths.max() > x.shape[1]):
        raise AireError(f"{path}: {part}_lengths must be (N,) numbers from 1 to {x.shape[1]}.")
    return Split(x if whole or x.ndim == 3 else x[..., None], y.astype(np.int64), lengths)
