"""Variations of training examples that keep their class: pictures moved and mirrored, clips moved, stretched and louder.

All take stored values (n, L) and return as many.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Augment = Callable[[np.random.Generator, np.ndarray], np.ndarray]

EARLIER, FASTER, LOUDER = 0.1, 0.15, 2.0  # seconds; share; factor: the most that clips are changed by, either way


def moved_pictures(side: int, pixels: int, mirrored: bool) -> Augment:
    """Square pictures of one channel, moved by up to so many pixels each way (what comes in is 0) and, if that keeps the
    class, mirrored left to right half of the time."""

    def vary(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
        count = len(x)
        padded = np.pad(x.reshape(count, side, side), ((0, 0), (pixels, pixels), (pixels, pixels)))
        down, right = rng.integers(0, 2 * pixels + 1, (2, count, 1))
        rows, columns = np.arange(side) + down, np.arange(side) + right
        if mirrored:
            columns = np.where(rng.random((count, 1)) < 0.5, columns[:, ::-1], columns)
        chosen: np.ndarray = padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
        return chosen.reshape(x.shape)

    return vary


def varied_clips(rate: int, levels: np.ndarray) -> Augment:
    """Clips as codes of sorted `levels` (256,), moved in time, stretched about their middle, and louder or softer; before
    and after a clip is silence."""
    silence = int(np.abs(levels).argmin())

    def vary(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
        count, length = x.shape
        offset = rng.uniform(-EARLIER, EARLIER, (count, 1)) * rate
        speed = rng.uniform(1 - FASTER, 1 + FASTER, (count, 1))
        gain = LOUDER ** rng.uniform(-1, 1, (count, 1))
        middle = (length - 1) / 2
        source = np.rint((np.arange(length) - middle) * speed + middle + offset).astype(np.int64)
        inside = (source >= 0) & (source < length)
        codes = np.take_along_axis(x, source.clip(0, length - 1), axis=1)
        louder = np.searchsorted((levels[1:] + levels[:-1]) / 2, levels * gain).astype(
            x.dtype
        )  # (n, 256), nearest codes
        return np.where(inside, np.take_along_axis(louder, codes, axis=1), x.dtype.type(silence))

    return vary
