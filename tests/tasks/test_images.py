"""CIFAR-10 and MNIST: small files in the original formats."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from aireprune.errors import AireError
from aireprune.tasks import load_task

BATCHES = [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]


def records(seed: int, count: int = 4) -> np.ndarray:
    """CIFAR-10 records (count, 3073): label, 1,024 red, green and blue values."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, (count, 1))
    return np.concatenate([labels, rng.integers(0, 256, (count, 3072))], 1).astype(np.uint8)


def binary_folder(data: Path) -> None:
    (data / "cifar-10-batches-bin").mkdir()
    for seed, name in enumerate(BATCHES):
        (data / "cifar-10-batches-bin" / name).write_bytes(records(seed).tobytes())


def binary_archive(data: Path) -> None:
    with tarfile.open(data / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for seed, name in enumerate(BATCHES):
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = 4 * 3073
            archive.addfile(info, io.BytesIO(records(seed).tobytes()))


@pytest.mark.parametrize("layout", [binary_folder, binary_archive])
def test_binary_cifar_becomes_grey(data, layout):
    layout(data)
    task = load_task("image")
    assert [len(split) for split in (task.train, task.validation, task.test)] == [18, 2, 4]
    wanted = records(5)
    red, green, blue = wanted[:, 1:].reshape(4, 3, 1024).swapaxes(0, 1).astype(float)
    grey = 0.299 * red + 0.587 * green + 0.114 * blue
    assert np.abs(task.test.x - grey).max() <= 0.51
    assert task.test.y.tolist() == wanted[:, 0].tolist()
    x = task.batch(task.test).x
    assert x.shape == (4, 1024, 1)
    assert np.allclose(x[..., 0], (task.test.x / 255 - 122.6 / 255) / (61 / 255), atol=1e-5)


def test_pickled_cifar_is_refused(data):
    (data / "cifar-10-batches-py").mkdir()
    with pytest.raises(AireError, match=r"cifar-10-batches-py is pickled.* binary version"):
        load_task("image")
    binary_folder(data)
    assert len(load_task("image").test) == 4


def test_damaged_pictures_are_named(data):
    binary_folder(data)
    path = data / "cifar-10-batches-bin" / "data_batch_3.bin"
    path.write_bytes(records(0).tobytes()[:-1])
    with pytest.raises(AireError, match=r"data_batch_3\.bin has 12291 bytes"):
        load_task("image")
    path.write_bytes(b"\x0b" + bytes(3072))
    with pytest.raises(AireError, match=r"data_batch_3\.bin has a label of 11"):
        load_task("image")
    path.unlink()
    with pytest.raises(AireError, match=r"data_batch_3\.bin"):
        load_task("image")
    (data / "cifar10_gray_train.npz").write_bytes(b"PK not a zip")
    with pytest.raises(AireError, match=r"cifar10_gray_train\.npz is not an \.npz file"):
        load_task("image")
    np.savez(data / "cifar10_gray_train.npz", x=np.zeros((2, 28, 28), np.uint8), y=np.zeros(2))
    with pytest.raises(AireError, match=r"cifar10_gray_train\.npz has uint8 images of shape \(2, 28, 28\)"):
        load_task("image")


def test_a_damaged_archive_is_named(data):
    (data / "cifar-10-binary.tar.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(AireError, match=r"cifar-10-binary\.tar\.gz cannot be read"):
        load_task("image")


def test_mnist(data):
    shapes = {"xtr": (24, 28, 28), "ytr": (24,), "xte": (3, 28, 28), "yte": (3,)}
    np.savez(data / "mnist.npz", **{name: np.ones(shape, np.uint8) for name, shape in shapes.items()})
    task = load_task("smnist")
    assert [len(split) for split in (task.train, task.validation, task.test)] == [22, 2, 3]
    assert task.batch(task.test).x.shape == (3, 784, 1)
