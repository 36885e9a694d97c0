"""Calibration inputs: a bounded number of unlabelled sequences, as a model takes them.

A source is an array, the name of a task (its training split), a .npy or .npz file, or a directory of such files.
Floats are (n, L) or (n, L, d) and are handed to the model as they are; integers (n, L) are tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aireprune.errors import AireError
from aireprune.tasks import TASKS, Task, load_task
from aireprune.tasks.numpy_files import is_npz, read_npy, read_npz

COUNT = 256
SEED = 20261
BATCH_TOKENS = 2**14
HELD_OUT = 4  # every fourth batch judges what the others suggest


class Inputs:
    """Sequences in batches; can be gone through any number of times. Every HELD_OUT-th batch is marked as held out."""

    def __init__(self, values: np.ndarray, batch_tokens: int = BATCH_TOKENS):
        self.values = values
        self.batch = max(1, min(batch_tokens // max(values.shape[1], 1), len(values) // HELD_OUT))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def tokens(self) -> int:
        return int(self.values.shape[0] * self.values.shape[1])

    @property
    def batches(self) -> int:
        return -(-len(self) // self.batch)

    def __getitem__(self, number: int) -> Tensor:
        if not 0 <= number < self.batches:
            raise IndexError(f"There are {self.batches} batches, and number {number} is not one of them.")
        return torch.from_numpy(self.values[number * self.batch : (number + 1) * self.batch])

    def __iter__(self) -> Iterator[Tensor]:
        return (self[number] for number in range(self.batches))

    def held_out(self, number: int) -> bool:
        return number % HELD_OUT == HELD_OUT - 1


InputSource = Inputs | np.ndarray | Tensor | str | Path


def read_inputs(source: InputSource, count: int = COUNT) -> Inputs:
    """At most `count` sequences: a seeded choice from a task's training split, the first ones of files and arrays."""
    if count < 1:
        raise AireError(f"Calibration needs at least one sequence; got a count of {count}.")
    if isinstance(source, Inputs):
        return source
    if isinstance(source, Tensor):
        source = source.detach().cpu().numpy()
    if isinstance(source, np.ndarray):
        return Inputs(_checked(source, "The calibration array")[:count])
    if str(source) in TASKS:
        return task_inputs(load_task(str(source)), count)
    return Inputs(_read_path(Path(source), count))


def task_inputs(task: Task, count: int = COUNT) -> Inputs:
    """A seeded choice from the task's training split."""
    chosen = np.sort(np.random.default_rng(SEED).permutation(len(task.train))[:count])
    return Inputs(task.batch(task.train.rows(chosen)).x)


def _read_path(path: Path, count: int) -> np.ndarray:
    if path.is_file():
        return _read_file(path)[:count]
    if not path.is_dir():
        raise AireError(
            f"There are no calibration inputs at {path}: give a .npy or .npz file, a directory of them, or one of the "
            f"tasks {', '.join(TASKS)}."
        )
    files = sorted(file for file in path.iterdir() if file.suffix in (".npy", ".npz"))
    if not files:
        raise AireError(f"The directory {path} holds no .npy or .npz files to calibrate with.")
    parts: list[np.ndarray] = []
    for file in files:
        part = _read_file(file)
        if parts and part.shape[1:] != parts[0].shape[1:]:
            raise AireError(
                f"{file} holds sequences of shape {part.shape[1:]}, but {files[0]} holds {parts[0].shape[1:]}; "
                "calibration inputs must agree."
            )
        parts.append(part[: count - sum(map(len, parts))])
        if sum(map(len, parts)) >= count:
            break
    return np.concatenate(parts)


def _read_file(path: Path) -> np.ndarray:
    """The array of a .npy file, or of a .npz file the one called x or inputs, or its only one."""
    try:
        if not is_npz(path):
            return _checked(read_npy(path), str(path))
        ((name, values),) = read_npz(path, lambda names: [_choice(names, path)]).items()
    except (OSError, ValueError) as problem:
        raise AireError(f"{path} is not a .npy or .npz file of plain arrays: {problem}.") from None
    return _checked(values, f"{path}, array {name}")


def _choice(names: list[str], path: Path) -> str:
    wanted = [name for name in ("x", "inputs") if name in names] or names
    if len(wanted) != 1 and wanted[:1] != ["x"]:
        listed = f"the arrays {', '.join(names)}" if names else "no array"
        raise AireError(f"{path} holds {listed}; call the one to calibrate with x or inputs.")
    return wanted[0]


def _checked(values: np.ndarray, where: str) -> np.ndarray:
    """Floats as float32 (n, L, d), tokens as int64 (n, L)."""
    if np.issubdtype(values.dtype, np.integer) and values.ndim == 2:
        if not values.size:
            raise AireError(f"{where} is empty.")
        return np.ascontiguousarray(values, np.int64)
    if not np.issubdtype(values.dtype, np.floating) or values.ndim not in (2, 3):
        raise AireError(
            f"{where} has shape {values.shape} and type {values.dtype}; expected model inputs: floats (n, L) or "
            "(n, L, d), or integer tokens (n, L)."
        )
    if not values.size:
        raise AireError(f"{where} is empty.")
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(values if values.ndim == 3 else values[..., None], np.float32)
    if not np.isfinite(single).all():
        raise AireError(f"{where} holds values that are not finite in single precision.")
    return single
