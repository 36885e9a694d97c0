"""Variations of examples: every pixel and sample of them is one of the original, moved as promised."""

from __future__ import annotations

import numpy as np
import pytest

from aireprune.tasks.augment import EARLIER, moved_pictures, varied_clips
from aireprune.tasks.speech import mu_law

RATE = 1000


def pictures(count=200, side=8):
    return np.random.default_rng(1).integers(1, 256, (count, side * side)).astype(np.uint8)


@pytest.mark.parametrize("mirrored", [False, True])
def test_pictures_are_moved_by_so_many_pixels_and_mirrored_only_if_asked(mirrored):
    x, side, pixels = pictures(), 8, 2
    found = moved_pictures(side, pixels, mirrored)(np.random.default_rng(0), x)
    assert found.dtype == x.dtype
    kinds = set()
    for before, after in zip(x.reshape(-1, side, side), found.reshape(-1, side, side), strict=True):
        wide = np.pad(before, pixels)
        places = [
            (down, right, turned)
            for turned in (False, True)
            for down in range(2 * pixels + 1)
            for right in range(2 * pixels + 1)
            if np.array_equal(_turn(wide[down : down + side, right : right + side], turned), after)
        ]
        assert len(places) == 1
        kinds.add(places[0])
    every = (2 * pixels + 1) ** 2
    assert len(kinds) > (1.5 if mirrored else 0.9) * every
    assert any(turned for _, _, turned in kinds) == mirrored


def _turn(picture, turned):
    return picture[:, ::-1] if turned else picture


def test_clips_are_moved_stretched_and_louder_within_bounds():
    levels, length = mu_law(), 1001
    tone = np.zeros((300, length))
    tone[:, 500] = levels[200]  # a click in the middle
    codes = np.abs(levels[None, None, :] - tone[:1, :, None]).argmin(-1).astype(np.uint8).repeat(300, 0)
    found = varied_clips(RATE, levels)(np.random.default_rng(0), codes)
    assert found.shape == codes.shape
    assert found.dtype == np.uint8
    silence = np.abs(levels).argmin()
    values = levels[found] * (found != silence)
    heard = np.abs(values).max(1) > 0  # a click that is played faster may fall between two samples
    assert heard.mean() > 0.85
    places, loud = np.abs(values[heard]).argmax(1), np.abs(values[heard]).max(1)
    assert np.abs(places - 500).max() <= 1 + EARLIER * RATE / 0.85
    assert places.std() > 0.03 * RATE
    assert 0.45 * levels[200] < loud.min() < 0.7 * levels[200]
    assert 1.5 * levels[200] < loud.max() < 2.2 * levels[200]


def test_the_same_generator_gives_the_same_variations():
    vary = moved_pictures(8, 2, mirrored=True)
    first, again, other = (vary(np.random.default_rng(seed), pictures()) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
