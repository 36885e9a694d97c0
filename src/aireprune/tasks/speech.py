"""Speech Commands: which word a one-second clip holds."""

from __future__ import annotations

import numpy as np

from aireprune.tasks.base import VALIDATION_SEED, Split, Task, find_data

FRAME = 8
SPEECH_STD = np.float32(0.0764)


def mu_law(frame: int) -> np.ndarray:
    """The 256 values of 8-bit mu-law, in units of the clips' standard deviation."""
    level = np.linspace(-1, 1, 256, dtype=np.float32)
    values: np.ndarray = np.sign(level) * (np.float32(256) ** np.abs(level) - 1) / np.float32(255) / SPEECH_STD
    return values


def decode_frames(x: np.ndarray) -> np.ndarray:
    """mu-law bytes (n, samples) -> frames of FRAME samples (n, samples / FRAME, FRAME)."""
    return mu_law(FRAME)[x].reshape(len(x), -1, FRAME)


def speech_mini() -> Task:
    """12 classes at 8 kHz, 1,000 steps of 8 samples; speakers are in one split only (70, 10 and 20 % of them)."""
    path = find_data(
        "speech-mini",
        ("speech_commands12_8k_mulaw.npz",),
        "Put the 12-class test list of Speech Commands there (x uint8 mu-law (N, 8000), y, spk).",
    )
    with np.load(path, allow_pickle=False) as data:
        x, y, speakers = data["x"], data["y"].astype(np.int64), data["spk"]
    names = np.random.default_rng(VALIDATION_SEED).permutation(np.unique(speakers))
    bounds = np.cumsum([round(0.7 * len(names)), round(0.1 * len(names))])
    parts = [np.isin(speakers, group) for group in np.split(names, bounds)]
    splits = [Split(x[part], y[part]) for part in parts]
    return Task("speech-mini", 8000 // FRAME, FRAME, 12, decode_frames, *splits)
