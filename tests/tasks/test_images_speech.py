"""CIFAR-10, MNIST and Speech Commands: small files in the original formats."""

from __future__ import annotations

import io
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest

from aireprune.errors import AireError
from aireprune.tasks import load_task
from aireprune.tasks.speech import WORDS

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


# Speech Commands


def write_wav(path: Path, samples: np.ndarray, rate: int = 16_000, channels: int = 1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())


def clips(folder: Path) -> dict[str, np.ndarray]:
    """Three words, five speakers, one clip shorter than a second; and what the archive has besides."""
    rng, found = np.random.default_rng(0), {}
    for word in ("bed", "cat", "zero"):
        for speaker in ("0a1b", "2c3d", "4e5f", "6a7b", "8c9d"):
            size = 9_000 if (word, speaker) == ("cat", "2c3d") else 16_000
            found[f"{word}/{speaker}_nohash_0.wav"] = rng.integers(-32768, 32768, size)
    for name, samples in found.items():
        write_wav(folder / name, samples)
    write_wav(folder / "_background_noise_/pink_noise.wav", np.zeros(40_000))
    (folder / "validation_list.txt").write_text("cat/2c3d_nohash_0.wav\nzero/2c3d_nohash_0.wav\n")
    (folder / "testing_list.txt").write_text("bed/0a1b_nohash_0.wav\n")
    return found


FOLDER = "speech_commands_v0.02"


@pytest.mark.parametrize("folder", [FOLDER, f"SpeechCommands/{FOLDER}", "speech_commands/0.0.2/SpeechCommands"])
def test_clips_and_lists_of_the_archive(data, folder):
    samples = clips(data / folder)
    task = load_task("speech")
    assert [len(split) for split in (task.train, task.validation, task.test)] == [12, 2, 1]
    assert (task.length, task.d_input, task.classes, task.step_rescale) == (16_000, 1, 35, 1.0)
    assert np.array_equal(task.test.x[0], samples["bed/0a1b_nohash_0.wav"])
    assert np.array_equal(task.validation.x[0, :9000], samples["cat/2c3d_nohash_0.wav"])
    assert not task.validation.x[0, 9000:].any()
    assert [WORDS[label] for label in task.validation.y] == ["cat", "zero"]
    assert isinstance(task.train.x, np.memmap)
    assert task.batch(task.test).x.shape == (1, 16_000, 1)
    assert task.batch(task.train).x.std() == pytest.approx(1 / np.sqrt(3) / 0.0764, rel=0.01)


def test_every_second_sample_and_twice_the_step(data):
    clips(data / FOLDER)
    full, half = load_task("speech"), load_task("speech-8k")
    assert np.array_equal(half.train.x, full.train.x[:, ::2])
    assert np.array_equal(half.train.y, full.train.y)
    assert (half.length, half.step_rescale) == (8_000, 2.0)
    assert np.array_equal(half.batch(half.test).x, full.batch(full.test).x[:, ::2])


def test_without_lists_no_speaker_is_in_two_splits(data):
    samples = clips(data / FOLDER)
    (data / FOLDER / "testing_list.txt").unlink()
    task = load_task("speech")
    names = {values[:16_000].astype(np.int16).tobytes()[:9000]: name for name, values in samples.items()}
    speakers = [{names[x.tobytes()[:9000]][-17:-13] for x in s.x} for s in (task.train, task.validation, task.test)]
    assert sum(len(group) for group in speakers) == 5
    assert len(set.union(*speakers)) == 5


def test_damaged_clips_are_named(data):
    clips(data / FOLDER)
    path = data / FOLDER / "zero/6a7b_nohash_0.wav"
    path.write_bytes(b"RIFF")
    with pytest.raises(AireError, match=r"zero/6a7b_nohash_0\.wav is not a readable \.wav file"):
        load_task("speech")
    write_wav(path, np.zeros(8000), rate=8000)
    with pytest.raises(AireError, match=r"6a7b_nohash_0\.wav has 1 channel\(s\) of 16 bits at 8000 Hz"):
        load_task("speech")


def test_a_folder_without_clips_is_named(data):
    (data / FOLDER).mkdir()
    with pytest.raises(AireError, match=r"speech_commands_v0\.02 has no WORD/\*\.wav"):
        load_task("speech")


def test_mini_clips_are_split_by_speaker(data):
    x = np.random.default_rng(0).integers(0, 256, (60, 8000)).astype(np.uint8)
    speakers = np.repeat(np.arange(20), 3)
    np.savez(data / "speech_commands12_8k_mulaw.npz", x=x, y=np.arange(60) % 12, spk=speakers)
    task = load_task("speech-mini")
    assert [len(split) for split in (task.train, task.validation, task.test)] == [42, 6, 12]
    assert task.batch(task.test).x.shape == (12, 1000, 8)
