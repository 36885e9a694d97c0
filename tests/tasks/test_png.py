"""Reading PNG files: every filter, every kind of colour."""

from __future__ import annotations

import numpy as np
import pytest
from png_files import png

from aireprune.tasks.png import read_png


@pytest.mark.parametrize("kinds", [(0,), (1,), (2,), (3,), (4,), (0, 1, 2, 3, 4)])
def test_png_filters(tmp_path, kinds):
    picture = np.random.default_rng(0).integers(0, 256, (12, 9)).astype(np.uint8)
    (tmp_path / "a.png").write_bytes(png(picture, kinds))
    assert np.array_equal(read_png(tmp_path / "a.png"), picture)


def test_png_colours(tmp_path):
    colours = np.random.default_rng(0).integers(0, 256, (6, 5, 4)).astype(np.uint8)
    grey = np.round(colours[..., :3] @ [0.299, 0.587, 0.114])
    for colour, picture in ((2, colours[..., :3]), (6, colours)):
        (tmp_path / "a.png").write_bytes(png(picture, colour=colour))
        assert np.abs(read_png(tmp_path / "a.png") - grey).max() <= 1
    (tmp_path / "a.png").write_bytes(png(colours[..., :2], colour=4))
    assert np.array_equal(read_png(tmp_path / "a.png"), colours[..., 0])
