"""Pictures read pixel by pixel: sequential MNIST, LRA's Image (grey CIFAR-10) and colour CIFAR-10."""

from __future__ import annotations

import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np

from aireprune.errors import AireError
from aireprune.folders import data_folder
from aireprune.tasks import numpy_files
from aireprune.tasks.augment import moved_pictures
from aireprune.tasks.base import Split, Task, find_data, hold_out, locate, normalised
from aireprune.tasks.png import luma

SMNIST_MEAN, SMNIST_STD = 0.1307, 0.3081
GREY_MEAN, GREY_STD = 122.6 / 255, 61.0 / 255  # of grey CIFAR-10, as the LRA code has them
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
CIFAR_FILES = {"train": [f"data_batch_{k}.bin" for k in range(1, 6)], "test": ["test_batch.bin"]}
CIFAR_HOW = (
    "Put the binary version of CIFAR-10 there (cifar-10-binary.tar.gz of cs.toronto.edu/~kriz/cifar.html, packed or "
    "unpacked), or files cifar10_gray_train.npz and cifar10_gray_test.npz (arrays x: uint8 32x32 grey, y)."
)


def smnist() -> Task:
    """MNIST, pixel by pixel: 55,000 training, 5,000 validation and 10,000 test images."""
    path = find_data("smnist", ("mnist.npz",), "Put an mnist.npz (arrays xtr, ytr, xte, yte; uint8, 28x28) there.")
    arrays = read_npz(path, "xtr", "ytr", "xte", "yte")
    full, test = (labelled(arrays[f"x{part}"], arrays[f"y{part}"], (784,), path) for part in ("tr", "te"))
    train, validation = hold_out(full, len(full) // 12)
    decode, augment = normalised(784, SMNIST_MEAN, SMNIST_STD), moved_pictures(28, 2, mirrored=False)
    return Task("smnist", 784, 1, 10, decode, train, validation, test, augment=augment)


def image() -> Task:
    """Grey CIFAR-10: 45,000 training, 5,000 validation and 10,000 test images."""
    full, test = (grey_cifar(part) for part in ("train", "test"))
    train, validation = hold_out(full, len(full) // 10)
    decode, augment = normalised(1024, GREY_MEAN, GREY_STD), moved_pictures(32, 4, mirrored=True)
    return Task("image", 1024, 1, 10, decode, train, validation, test, augment=augment)


def scifar_rgb() -> Task:
    """Colour CIFAR-10, pixel by pixel: 2,000 test images; 256 training images to calibrate with, 256 to validate."""
    splits = []
    for name in ("train512", "test2000"):
        path = find_data(
            "scifar_rgb", (f"cifar10_rgb_{name}.npz",), "Put a file of that name (arrays x: uint8 32x32x3, y) there."
        )
        arrays = read_npz(path, "x", "y")
        splits.append(labelled(arrays["x"], arrays["y"], (1024, 3), path))
    full, test = splits
    train, validation = full.rows(slice(0, len(full) // 2)), full.rows(slice(len(full) // 2, None))
    return Task("scifar_rgb", 1024, 3, 10, normalised(1024, CIFAR_MEAN, CIFAR_STD), train, validation, test)


def cifar_places(part: str) -> tuple[str, ...]:
    return (f"cifar10_gray_{part}.npz", "cifar-10-batches-bin", "cifar-10-binary.tar.gz")


def grey_cifar(part: str) -> Split:
    """All images of "train" or "test" (N, 1024)."""
    names, pickled = cifar_places(part), data_folder() / "cifar-10-batches-py"
    if pickled.is_dir() and locate(names) is None:
        raise AireError(f"{pickled} is pickled, which can run code when it is read, so it is not read. {CIFAR_HOW}")
    path = find_data("image", names, CIFAR_HOW)
    if path.suffix == ".npz":
        arrays = read_npz(path, "x", "y")
        return labelled(arrays["x"], arrays["y"], (1024,), path)
    parts = [parse_cifar(data, where) for where, data in _cifar_files(path, part)]
    return Split(np.concatenate([split.x for split in parts]), np.concatenate([split.y for split in parts]))


def _cifar_files(path: Path, part: str) -> list[tuple[str, bytes]]:
    """(name for messages, content) of the batches of a part, from the folder or the archive."""
    try:
        if path.is_dir():
            return [(str(path / name), (path / name).read_bytes()) for name in CIFAR_FILES[part]]
        found = []
        with tarfile.open(path, "r:gz") as archive:
            for name in CIFAR_FILES[part]:
                file = archive.extractfile(f"cifar-10-batches-bin/{name}")
                found.append((f"{path}: {name}", file.read() if file is not None else b""))
        return found
    except (OSError, EOFError, KeyError, ValueError, zlib.error, struct.error, tarfile.TarError) as error:
        raise AireError(f"CIFAR-10 in {path} cannot be read ({error}). {CIFAR_HOW}") from error


def parse_cifar(data: bytes, where: str) -> Split:
    """Records of one label byte and 3 x 1024 bytes (red, green, blue planes) -> grey (N, 1024)."""
    if not data or len(data) % 3073:
        raise AireError(f"{where} has {len(data)} bytes, which is not a number of CIFAR-10 records of 3,073 bytes.")
    records = np.frombuffer(data, np.uint8).reshape(-1, 3073)
    if records[:, 0].max() > 9:
        raise AireError(f"{where} has a label of {records[:, 0].max()}; those of CIFAR-10 are 0 to 9.")
    return Split(luma(records[:, 1:].reshape(-1, 3, 1024).swapaxes(1, 2)), records[:, 0].astype(np.int64))


def read_npz(path: Path, *names: str) -> dict[str, np.ndarray]:
    try:
        return numpy_files.read_npz(path, lambda there: names)
    except (OSError, ValueError) as error:
        raise AireError(f"{path} is not an .npz file with the arrays {', '.join(names)} ({error}).") from error


def labelled(x: np.ndarray, y: np.ndarray, shape: tuple[int, ...], path: Path) -> Split:
    """Images flattened to (N, *shape), with their classes."""
    if x.dtype != np.uint8 or y.ndim != 1 or x.size != len(y) * np.prod(shape):
        raise AireError(
            f"{path} has {x.dtype} images of shape {x.shape} for labels {y.shape}; uint8 {shape} is needed."
        )
    if y.dtype.kind not in "iu" or not len(y) or y.min() < 0 or y.max() > 9:
        raise AireError(f"{path} has labels that are not whole numbers from 0 to 9.")
    return Split(x.reshape(-1, *shape), y.astype(np.int64))
