"""Speech Commands: small clips in the layout of the archive."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from aireprune.errors import AireError
from aireprune.tasks import load_task
from aireprune.tasks.speech import WORDS


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
