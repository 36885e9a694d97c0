"""What comes with the package: a trained S5 digit classifier and 1,000 test digits (see README.md beside this file)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from aireprune.tasks.base import Split, Task, normalised
from aireprune.tasks.images import SMNIST_MEAN, SMNIST_STD

FOLDER = Path(__file__).parent
MODEL = FOLDER / "smnist-s5"


def digits() -> Task:
    """The smnist task with nothing but the 1,000 embedded test digits (the first 1,000 of the test set)."""
    with np.load(FOLDER / "digits.npz", allow_pickle=False) as data:
        test = Split(data["x"], data["y"].astype(np.int64))
    none = Split(test.x[:0], test.y[:0])
    return Task("smnist", 784, 1, 10, normalised(784, SMNIST_MEAN, SMNIST_STD), none, none, test)
