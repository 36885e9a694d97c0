"""Tasks: what a classifier is trained and judged on. Arrays stay uint8 until a batch is asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aireprune.errors import AireError

VALIDATION_SEED = 20260
SMNIST_MEAN, SMNIST_STD = 0.1307, 0.3081


@dataclass(frozen=True)
class Split:
    """Inputs (N, L) or (N, L, d) and labels (N,)."""

    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Task:
    """A data set in three splits, and how raw values become model inputs: (x / 255 - mean) / std."""

    name: str
    length: int
    d_input: int
    classes: int
    mean: float
    std: float
    train: Split
    validation: Split
    test: Split

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Raw uint8 (n, L) -> float32 (n, L, d_input)."""
        scaled = (x.astype(np.float32) / 255 - self.mean) / self.std
        return scaled.reshape(len(x), self.length, self.d_input)


def data_folder() -> Path:
    """Where data sets are: $AIRE_DATA, or ../shared/data beside this checkout."""
    if "AIRE_DATA" in os.environ:
        return Path(os.environ["AIRE_DATA"])
    return Path(__file__).resolve().parents[3] / "shared" / "data"


def _smnist() -> Task:
    path = data_folder() / "mnist.npz"
    if not path.is_file():
        raise AireError(
            f"The smnist task needs {path}, which is not there. Put an mnist.npz (arrays xtr, ytr, xte, yte; uint8, "
            "28x28) into a folder and name that folder in the environment variable AIRE_DATA."
        )
    with np.load(path, allow_pickle=False) as data:
        x, y = data["xtr"].reshape(-1, 784), data["ytr"].astype(np.int64)
        test = Split(data["xte"].reshape(-1, 784), data["yte"].astype(np.int64))
    order = np.random.default_rng(VALIDATION_SEED).permutation(len(y))
    held, rest = order[:5000], order[5000:]
    return Task("smnist", 784, 1, 10, SMNIST_MEAN, SMNIST_STD, Split(x[rest], y[rest]), Split(x[held], y[held]), test)


TASKS = {"smnist": _smnist}


def load_task(name: str) -> Task:
    if name not in TASKS:
        raise AireError(f"There is no task {name!r}. Tasks: {', '.join(TASKS)}.")
    return TASKS[name]()
