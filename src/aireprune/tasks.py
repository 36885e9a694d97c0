"""Tasks: what a classifier is trained and judged on. Arrays stay uint8 until a batch is asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aireprune.errors import AireError

VALIDATION_SEED = 20260
SMNIST_MEAN, SMNIST_STD = 0.1307, 0.3081
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


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
    mean: float | tuple[float, ...]  # one for all input channels, or one each
    std: float | tuple[float, ...]
    train: Split
    validation: Split
    test: Split

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Raw uint8 (n, L) or (n, L, d_input) -> float32 (n, L, d_input)."""
        mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
        values: np.ndarray = x.reshape(len(x), self.length, self.d_input).astype(np.float32) / np.float32(255)
        return (values - mean) / std


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


def _scifar_rgb() -> Task:
    """Colour CIFAR-10, pixel by pixel: 2,000 test images; 256 training images to calibrate with, 256 to validate."""
    splits = {}
    for name in ("train512", "test2000"):
        path = data_folder() / f"cifar10_rgb_{name}.npz"
        if not path.is_file():
            raise AireError(
                f"The scifar_rgb task needs {path}, which is not there. Put a file of that name (arrays x: uint8 "
                "32x32x3, y) into a folder and name that folder in the environment variable AIRE_DATA."
            )
        with np.load(path, allow_pickle=False) as data:
            splits[name] = Split(data["x"].reshape(-1, 1024, 3), data["y"].astype(np.int64))
    x, y = splits["train512"].x, splits["train512"].y
    train, validation = Split(x[:256], y[:256]), Split(x[256:], y[256:])
    return Task("scifar_rgb", 1024, 3, 10, CIFAR_MEAN, CIFAR_STD, train, validation, splits["test2000"])


TASKS = {"smnist": _smnist, "scifar_rgb": _scifar_rgb}


def load_task(name: str) -> Task:
    if name not in TASKS:
        raise AireError(f"There is no task {name!r}. Tasks: {', '.join(TASKS)}.")
    return TASKS[name]()
