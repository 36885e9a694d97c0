"""Generated pictures against flood fill, and nothing but the contours tells the label."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from aireprune.tasks import contours
from aireprune.tasks.contours import draw
from aireprune.tasks.pathfinder import MINI, PATH32, PATH128

EIGHT = np.ones((3, 3), int)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(contours, "PILOT", 1500)


def discs(picture: np.ndarray) -> np.ndarray:
    """The centres (2, 2) of the two discs, the only white parts."""
    parts, count = ndimage.label(picture == 255, EIGHT)
    assert count == 2
    return np.array(ndimage.center_of_mass(picture == 255, parts, [1, 2]))


def test_the_label_says_whether_the_discs_are_connected():
    """Without gaps a contour is one connected part of the picture, so flood fill knows the answer."""
    whole = replace(MINI, size=40, gap=0, dash=4, apart=5.0)
    pictures, labels = draw(whole, 200, seed=0)
    for picture, label in zip(pictures, labels, strict=True):
        parts, count = ndimage.label(picture > 0, EIGHT)
        assert count == 3  # two long contours and a distractor
        first, second = np.round(discs(picture)).astype(int)
        assert (parts[tuple(first)] == parts[tuple(second)]) == bool(label)


@pytest.mark.parametrize("style", [MINI, PATH32, PATH128], ids=lambda style: f"size {style.size}")
def test_two_discs_in_every_picture(style, monkeypatch):
    monkeypatch.setattr(contours, "PILOT", 200)
    pictures, labels = draw(style, 20, seed=3)
    assert pictures.shape == (20, style.size, style.size)
    assert labels.tolist() == [1, 0] * 10
    for picture in pictures:
        centres = discs(picture)
        assert np.linalg.norm(centres[0] - centres[1]) > style.disc


def test_brightness_and_distances_do_not_tell_the_label(monkeypatch):
    monkeypatch.setattr(contours, "PILOT", 12_000)
    pictures, labels = draw(MINI, 3000, seed=5)
    centres = [_two_centres(picture) for picture in pictures]
    middle = (MINI.size - 1) / 2
    statistics = {
        "brightness": pictures.sum((1, 2), dtype=float),
        "lit pixels": (pictures > 75).sum((1, 2)).astype(float),
        "distance": np.array([np.linalg.norm(a - b) for a, b in centres]),
        "offset": np.array([np.linalg.norm((a + b) / 2 - middle) for a, b in centres]),
    }
    for name, values in statistics.items():
        one, zero = values[labels == 1], values[labels == 0]
        error = np.sqrt(one.var() / len(one) + zero.var() / len(zero))
        assert abs(one.mean() - zero.mean()) < 4 * error, name
        threshold = max(
            abs(np.mean((values > cut) == labels) - 0.5) for cut in np.quantile(values, np.arange(0.1, 1, 0.1))
        )
        assert threshold < 0.05, name


def _two_centres(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Roughly: the brightest pixel, and the brightest one that is not near it."""
    first = np.array(np.unravel_index(picture.argmax(), picture.shape))
    rows, columns = np.indices(picture.shape)
    far = (rows - first[0]) ** 2 + (columns - first[1]) ** 2 > 9
    second = np.array(np.unravel_index((picture * far).argmax(), picture.shape))
    return first, second


def test_the_same_pictures_on_every_machine():
    pictures, _ = draw(MINI, 64, seed=0)
    assert hashlib.sha256(pictures.tobytes()).hexdigest()[:16] == "c567eb452b036ff9"
    assert not np.array_equal(draw(MINI, 64, seed=1)[0], pictures)


def test_what_does_not_fit_is_an_error(monkeypatch):
    monkeypatch.setattr(contours, "PILOT", 1)
    with pytest.raises(ValueError, match="do not fit"):
        draw(replace(MINI, size=8, dashes=(6, 6), bend=0, drift=0), 2, seed=0)
