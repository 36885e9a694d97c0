"""Speech Commands: which word a one-second clip holds."""

from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from aireprune.errors import AireError
from aireprune.tasks.augment import varied_clips
from aireprune.tasks.base import VALIDATION_SEED, Split, Task, find_data
from aireprune.tasks.cache import cached, sections, write_arrays
from aireprune.tasks.images import read_npz

RATE = 16_000
FRAME = 8
MINI = ("speech_commands12_8k_mulaw.npz",)
SPEECH_STD = np.float32(0.0764)  # of the clips, full scale being 1
FOLDERS = (
    "speech_commands_v0.02",
    "SpeechCommands/speech_commands_v0.02",
    "speech_commands/0.0.2/SpeechCommands",
    "SpeechCommands",
)
HOW = "Unpack speech_commands_v0.02.tar.gz of download.tensorflow.org/data into a folder of that name there."
WORDS = (  # in the order of the S5 code, so that its classes are ours
    *("bed", "cat", "down", "five", "forward", "go", "house", "left", "marvin", "no", "on", "right"),
    *("sheila", "tree", "up", "visual", "yes", "backward", "bird", "dog", "eight", "follow", "four", "happy"),
    *("learn", "nine", "off", "one", "seven", "six", "stop", "three", "two", "wow", "zero"),
)
Clip = tuple[str, int]


def speech() -> Task:
    """35 words at 16 kHz, 16,000 steps, with the archive's own validation and test lists: 84,843 / 9,981 / 11,005."""
    return Task("speech", RATE, 1, len(WORDS), decode_pcm, *_clips())


def speech_8k() -> Task:
    """Every second sample of the same clips, for a model trained on `speech` whose step sizes are doubled."""
    splits = [Split(split.x[:, ::2], split.y) for split in _clips()]
    return Task("speech-8k", RATE // 2, 1, len(WORDS), decode_pcm, *splits, step_rescale=2.0)


def speech_mini() -> Task:
    """12 classes at 8 kHz, 1,000 steps of 8 samples; speakers are in one split only (70, 10 and 20 % of them)."""
    path = find_data(
        "speech-mini",
        MINI,
        "Put the 12-class test list of Speech Commands there (x uint8 mu-law (N, 8000), y, spk).",
    )
    data = read_npz(path, "x", "y", "spk")
    count = len(data["spk"]) if data["spk"].ndim else 0
    if data["x"].shape != (count, RATE // 2) or data["x"].dtype != np.uint8 or data["y"].shape != (count,):
        raise AireError(f"{path} does not hold x uint8 (N, {RATE // 2}), and y and spk (N,).")
    if data["y"].dtype.kind not in "iu" or data["y"].min(initial=0) < 0 or data["y"].max(initial=0) > 11:
        raise AireError(f"{path} has classes y that are not whole numbers from 0 to 11.")
    parts = by_speaker(data["spk"], 0.7, 0.1)
    splits = [Split(data["x"][part], data["y"][part].astype(np.int64)) for part in parts]
    augment = varied_clips(RATE // 2, mu_law())
    return Task("speech-mini", RATE // 2 // FRAME, FRAME, 12, decode_frames, *splits, augment=augment)


def mu_law() -> np.ndarray:
    """The 256 values of 8-bit mu-law, in units of the clips' standard deviation."""
    level = np.linspace(-1, 1, 256, dtype=np.float32)
    values: np.ndarray = np.sign(level) * (np.float32(256) ** np.abs(level) - 1) / np.float32(255) / SPEECH_STD
    return values


def decode_frames(x: np.ndarray) -> np.ndarray:
    """mu-law bytes (n, samples) -> frames of FRAME samples (n, samples / FRAME, FRAME)."""
    return mu_law()[x].reshape(len(x), -1, FRAME)


def decode_pcm(x: np.ndarray) -> np.ndarray:
    """int16 samples (n, L) -> (n, L, 1) in units of the clips' standard deviation."""
    values: np.ndarray = x[:, :, None].astype(np.float32) / (np.float32(32768) * SPEECH_STD)
    return values


def by_speaker(speakers: np.ndarray, *shares: float) -> list[np.ndarray]:
    """Masks (N,) of the splits; each holds a share of the speakers, the last one the rest."""
    names = np.random.default_rng(VALIDATION_SEED).permutation(np.unique(speakers))
    bounds = np.cumsum([round(share * len(names)) for share in shares])
    return [np.isin(speakers, group) for group in np.split(names, bounds)]


def _clips() -> list[Split]:
    """The three splits, int16 (N, 16000), decoded once and then mapped from the cache: 3.4 GB on disk, not in memory."""
    folder = find_data("speech", FOLDERS, HOW)
    parts = list_clips(folder)
    clips = [clip for part in parts for clip in part]
    split = cached("speech", (str(folder.resolve()), clips), lambda target: _decode(target, folder, clips))
    return sections(split, *(len(part) for part in parts))


def list_clips(folder: Path) -> list[list[Clip]]:
    """(WORD/name.wav, class) of training, validation and test clips, by the archive's lists.

    A folder without the two lists is split by speaker, 70, 15 and 15 %.
    """
    clips = [
        (f"{word}/{path.name}", label)
        for label, word in enumerate(WORDS)
        for path in sorted((folder / word).glob("*.wav"))
    ]
    if not clips:
        raise AireError(f"{folder} has no WORD/*.wav for any of the 35 words ({WORDS[0]}, {WORDS[1]}, ...). {HOW}")
    lists = [folder / "validation_list.txt", folder / "testing_list.txt"]
    if all(path.is_file() for path in lists):
        validation, test = (set(path.read_text(encoding="utf-8", errors="replace").split()) for path in lists)
        where = np.array([1 if name in validation else 2 if name in test else 0 for name, _ in clips])
        masks = [where == part for part in range(3)]
    else:
        masks = by_speaker(np.array([name.split("/")[1].split("_")[0] for name, _ in clips]), 0.7, 0.15)
    return [[clips[row] for row in np.flatnonzero(mask)] for mask in masks]


def _decode(target: Path, folder: Path, clips: list[Clip]) -> None:
    x = open_memmap(target / "x.npy", "w+", np.int16, (len(clips), RATE))
    for row, (name, _) in enumerate(clips):
        samples = read_wav(folder / name)[:RATE]
        x[row, : len(samples)] = samples
    x.flush()
    write_arrays(target, y=np.array([label for _, label in clips]))


def read_wav(path: Path) -> np.ndarray:
    """The int16 samples of a mono 16 kHz file; clips shorter than a second are followed by silence, as S5's code does."""
    try:
        with wave.open(str(path), "rb") as file:
            form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            data = file.readframes(file.getnframes())
    except (OSError, EOFError, ValueError, struct.error, wave.Error) as error:
        raise AireError(f"{path} is not a readable .wav file ({error}).") from error
    if form != (1, 2, RATE):
        raise AireError(
            f"{path} has {form[0]} channel(s) of {8 * form[1]} bits at {form[2]} Hz; 1, 16 and {RATE} are needed."
        )
    return np.frombuffer(data[: len(data) // 2 * 2], "<i2")
