"""Pictures read pixel by pixel: sequential MNIST, LRA's Image (grey CIFAR-10) and colour CIFAR-10."""

from __future__ import annotations

import numpy as np

from aireprune.tasks.base import Split, Task, find_data, hold_out, normalised

SMNIST_MEAN, SMNIST_STD = 0.1307, 0.3081
GREY_MEAN, GREY_STD = 122.6 / 255, 61.0 / 255  # of grey CIFAR-10, as the LRA code has them
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def smnist() -> Task:
    path = find_data("smnist", ("mnist.npz",), "Put an mnist.npz (arrays xtr, ytr, xte, yte; uint8, 28x28) there.")
    with np.load(path, allow_pickle=False) as data:
        full = Split(data["xtr"].reshape(-1, 784), data["ytr"].astype(np.int64))
        test = Split(data["xte"].reshape(-1, 784), data["yte"].astype(np.int64))
    train, validation = hold_out(full, 5000)
    return Task("smnist", 784, 1, 10, normalised(784, SMNIST_MEAN, SMNIST_STD), train, validation, test)


def image() -> Task:
    """Grey CIFAR-10: 45,000 training, 5,000 validation and 10,000 test images."""
    splits = {}
    for part in ("train", "test"):
        path = find_data("image", (f"cifar10_gray_{part}.npz",), "Put CIFAR-10 there (arrays x: uint8 32x32 grey, y).")
        with np.load(path, allow_pickle=False) as data:
            splits[part] = Split(data["x"].reshape(-1, 1024), data["y"].astype(np.int64))
    train, validation = hold_out(splits["train"], 5000)
    return Task("image", 1024, 1, 10, normalised(1024, GREY_MEAN, GREY_STD), train, validation, splits["test"])


def scifar_rgb() -> Task:
    """Colour CIFAR-10, pixel by pixel: 2,000 test images; 256 training images to calibrate with, 256 to validate."""
    splits = {}
    for name in ("train512", "test2000"):
        path = find_data(
            "scifar_rgb", (f"cifar10_rgb_{name}.npz",), "Put a file of that name (arrays x: uint8 32x32x3, y) there."
        )
        with np.load(path, allow_pickle=False) as data:
            splits[name] = Split(data["x"].reshape(-1, 1024, 3), data["y"].astype(np.int64))
    train, validation = splits["train512"].rows(slice(0, 256)), splits["train512"].rows(slice(256, None))
    decode = normalised(1024, CIFAR_MEAN, CIFAR_STD)
    return Task("scifar_rgb", 1024, 3, 10, decode, train, validation, splits["test2000"])
