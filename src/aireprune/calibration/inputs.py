"""Calibration inputs: a bounded number of unlabelled sequences, in batches as a model takes them.

A source is an array, the name of a task (its training split), a .npy or .npz file, a directory of such files, or any
iterable of batches, each what the model takes: a tensor, a tuple of arguments, or a mapping of keyword arguments.
Arrays of floats are (n, L) or (n, L, d) and are handed to the model as they are; arrays of integers (n, L) are tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from aireprune.calibration.calls import Call
from aireprune.errors import AireError, did_you_mean
from aireprune.tasks import TASKS, Task, load_task
from aireprune.tasks.numpy_files import is_npz, read_npy, read_npz

COUNT = 256
SEED = 20261
BATCH_TOKENS = 2**14
BATCH_ANSWERS = 2**25  # numbers that a language model puts out for a batch
HELD_OUT = 4  # every fourth batch judges what the others suggest


class Inputs(Protocol):
    """Batches that can be gone through any number of times. Every HELD_OUT-th is marked as held out."""

    @property
    def batches(self) -> int: ...

    def __len__(self) -> int:
        """How many sequences."""
        ...

    def __getitem__(self, number: int) -> Call: ...


def held_out(number: int) -> bool:
    """Whether a batch judges what the others suggest."""
    return number % HELD_OUT == HELD_OUT - 1


def judging(inputs: Inputs) -> Sequence[int]:
    """The numbers of the held-out batches; all of them, if there are too few to hold some out."""
    return [number for number in range(inputs.batches) if held_out(number)] or range(inputs.batches)


def learning(inputs: Inputs) -> Sequence[int]:
    """The numbers of the other batches; all of them, if there are too few to hold some out."""
    return [number for number in range(inputs.batches) if not held_out(number)]


class ArrayInputs:
    """Sequences of one array."""

    def __init__(self, values: np.ndarray, batch_tokens: int = BATCH_TOKENS):
        self.values = values
        if values.ndim == 2:  # a language model answers every token with as many numbers as it knows tokens
            batch_tokens = min(batch_tokens, BATCH_ANSWERS // (int(values.max(initial=0)) + 1))
        self.batch = max(1, min(batch_tokens // max(values.shape[1], 1), len(values) // HELD_OUT))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def batches(self) -> int:
        return -(-len(self) // self.batch)

    def __getitem__(self, number: int) -> Call:
        if not 0 <= number < self.batches:
            raise IndexError(f"There are {self.batches} batches, and number {number} is not one of them.")
        return Call((torch.from_numpy(self.values[number * self.batch : (number + 1) * self.batch]),))


class GivenBatches:
    """Batches that the user made."""

    def __init__(self, calls: Sequence[Call]):
        self.calls = calls

    def __len__(self) -> int:
        return sum(len(call.first) for call in self.calls)

    @property
    def batches(self) -> int:
        return len(self.calls)

    def __getitem__(self, number: int) -> Call:
        return self.calls[number]


InputSource = Inputs | np.ndarray | Tensor | str | Path | Iterable[Any]


def read_inputs(source: InputSource, count: int = COUNT) -> Inputs:
    """At most `count` sequences: a seeded choice from a task's training split, the first ones of everything else."""
    if count < 1:
        raise AireError(f"Calibration needs at least one sequence; got a count of {count}.")
    if isinstance(source, ArrayInputs | GivenBatches):
        return source
    if isinstance(source, Tensor):
        source = source.detach().cpu().numpy()
    if isinstance(source, np.ndarray):
        return ArrayInputs(_checked(source, "The calibration array")[:count])
    if isinstance(source, str | Path):
        if str(source) in TASKS:
            return task_inputs(load_task(str(source)), count)
        return ArrayInputs(_read_path(Path(source), count))
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise AireError(
            f"calibrate= takes an array, a file, a task's name or an iterable of batches, not a {type(source).__name__}; "
            "one batch is given as a list of one."
        )
    return GivenBatches(_read_batches(source, count))


def task_inputs(task: Task, count: int = COUNT) -> ArrayInputs:
    """A seeded choice from the task's training split."""
    chosen = np.sort(np.random.default_rng(SEED).permutation(len(task.train))[:count])
    return ArrayInputs(task.batch(task.train.rows(chosen)).x)


def _read_batches(source: Iterable[Any], count: int) -> list[Call]:
    calls, left = [], count
    for number, batch in enumerate(source):
        call = _call(batch, number)
        calls.append(call.rows(slice(left)) if len(call.first) > left else call)
        left -= len(call.first)
        if left <= 0:
            break
    if not calls:
        raise AireError("There are no batches to calibrate with: the iterable is empty.")
    return list(_divided(calls))


def _call(batch: Any, number: int) -> Call:
    """A batch as a call; checked, because nobody else looks at it before the model does."""
    if isinstance(batch, np.ndarray):
        batch = torch.from_numpy(batch)
    if isinstance(batch, Mapping):
        call = Call((), dict(batch))
    elif isinstance(batch, tuple | list):
        call = Call(tuple(torch.from_numpy(part) if isinstance(part, np.ndarray) else part for part in batch))
    elif isinstance(batch, Tensor):
        call = Call((batch,))
    else:
        raise AireError(
            f"Calibration batch {number} is a {type(batch).__name__}; expected what the model takes: a tensor, a tuple of "
            "arguments, or a mapping of keyword arguments."
        )
    if call.first.ndim == 0 or call.first.numel() == 0:
        raise AireError(f"Calibration batch {number} is empty.")
    for tensor in call.tensors:
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise AireError(f"Calibration batch {number} holds values that are not finite.")
    return call


def _divided(calls: Sequence[Call]) -> Iterator[Call]:
    """The batches, cut into smaller ones if there are too few to hold one out."""
    pieces = -(-HELD_OUT // len(calls))
    for call in calls:
        size = max(1, -(-len(call.first) // pieces))
        yield from (call.rows(slice(start, start + size)) for start in range(0, len(call.first), size))


def _read_path(path: Path, count: int) -> np.ndarray:
    if path.is_file():
        return _read_file(path)[:count]
    if not path.is_dir():
        raise AireError(
            f"There are no inputs at {path}.{did_you_mean(str(path), TASKS)} Give a .npy or .npz file, a directory of them, "
            f"or one of the tasks {', '.join(TASKS)}."
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
