"""Pathfinder: generated pictures against flood fill, and folders of the LRA release with their PNG files."""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from aireprune.errors import AireError
from aireprune.tasks import contours, load_task
from aireprune.tasks import pathfinder as module
from aireprune.tasks.contours import draw
from aireprune.tasks.pathfinder import MINI, PATH32, PATH128
from aireprune.tasks.png import SIGNATURE, read_png

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


def test_the_mini_task(monkeypatch):
    monkeypatch.setattr(module, "MINI_COUNTS", (40, 20, 10))
    task = load_task("pathfinder-mini")
    assert [len(split) for split in (task.train, task.validation, task.test)] == [40, 20, 10]
    assert np.bincount(task.train.y).tolist() == [20, 20]
    x = task.batch(task.test).x
    assert x.shape == (10, 256, 1)
    assert (x.min(), x.max()) == (-1, 1)
    monkeypatch.setattr(module, "draw_into", None)
    assert np.array_equal(load_task("pathfinder-mini").train.x, task.train.x)


# The LRA release


def png(picture: np.ndarray, kinds: tuple[int, ...] = (0, 1, 2, 3, 4), colour: int = 0) -> bytes:
    """A PNG file whose rows use the given filters in turn. picture: (height, width) or (height, width, channels)."""
    height, width = picture.shape[:2]
    rows = picture.reshape(height, -1).astype(int)
    step = rows.shape[1] // width
    packed = b""
    for y in range(height):
        up = rows[y - 1] if y else np.zeros_like(rows[0])
        left, corner = (np.concatenate([np.zeros(step, int), row[:-step]]) for row in (rows[y], up))
        kind = kinds[y % len(kinds)]
        guess = [0 * up, left, up, (left + up) // 2, paeth(left, up, corner)][kind]
        packed += bytes([kind]) + ((rows[y] - guess) % 256).astype(np.uint8).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    body = zlib.compress(packed)
    parts = [(b"IHDR", header), (b"tEXt", b"Software\0x"), (b"IDAT", body[:9]), (b"IDAT", body[9:]), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    return SIGNATURE + b"".join(chunks)


def paeth(left: np.ndarray, up: np.ndarray, corner: np.ndarray) -> np.ndarray:
    guesses = np.stack([left, up, corner])
    return np.take_along_axis(guesses, np.abs(left + up - corner - guesses).argmin(0)[None], 0)[0]


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


def release(folder: Path, count: int = 20, as_array: bool = False) -> np.ndarray:
    """A small pathfinder32 of two lists; the pictures (2, count / 2, 32, 32), labels 1, 0, 1, 0, ..."""
    pictures = np.random.default_rng(1).integers(0, 256, (2, count // 2, 32, 32)).astype(np.uint8)
    (folder / "metadata").mkdir(parents=True)
    for k in range(2):
        (folder / "imgs" / str(k)).mkdir(parents=True)
        rows = [[f"imgs/{k}", f"sample_{i}.png", str(i), str(1 - i % 2), "1.8", "14", "2"] for i in range(count // 2)]
        for row, picture in zip(rows, pictures[k], strict=True):
            (folder / row[0] / row[1]).write_bytes(png(picture))
        if as_array:
            np.save(folder / "metadata" / f"{k}.npy", np.array(rows))
        else:
            (folder / "metadata" / f"{k}.npy").write_text("".join(" ".join(row) + "\n" for row in rows))
    return pictures


@pytest.mark.parametrize("as_array", [False, True], ids=["text", "npy"])
def test_folders_of_the_release(data, as_array):
    pictures = release(data / "lra_release/pathfinder32/curv_contour_length_14", as_array=as_array)
    task = load_task("pathfinder")
    assert [len(split) for split in (task.train, task.validation, task.test)] == [16, 2, 2]
    assert (task.length, task.d_input, task.classes) == (1024, 1, 2)
    labels = {picture.tobytes(): 1 - i % 2 for part in pictures for i, picture in enumerate(part)}
    found = [(x.tobytes(), y) for s in (task.train, task.validation, task.test) for x, y in zip(s.x, s.y, strict=True)]
    assert dict(found) == labels
    assert len(found) == 20


def test_damaged_folders_are_named(data):
    level = data / "pathfinder32/curv_contour_length_14"
    release(level)
    (level / "imgs/1/sample_3.png").write_bytes(b"")
    with pytest.raises(AireError, match=r"imgs/1/sample_3\.png is not a readable 8-bit PNG"):
        load_task("pathfinder")
    (level / "imgs/1/sample_3.png").write_bytes(png(np.zeros((16, 16), np.uint8)))
    with pytest.raises(AireError, match=r"sample_3\.png has \(16, 16\) pixels"):
        load_task("pathfinder")
    (level / "imgs/1/sample_3.png").write_bytes(png(np.zeros((32, 32), np.uint8))[:-40])
    with pytest.raises(AireError, match=r"sample_3\.png is not a readable"):
        load_task("pathfinder")
    (level / "metadata/0.npy").write_text("imgs/0 sample_0.png 0 cat\n")
    with pytest.raises(AireError, match=r"metadata/0\.npy is not a Pathfinder list .* label is 'cat'"):
        load_task("pathfinder")
    np.save(level / "metadata/0.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(AireError, match=r"metadata/0\.npy is not a Pathfinder list"):
        load_task("pathfinder")
    for path in (level / "metadata").iterdir():
        path.unlink()
    with pytest.raises(AireError, match=r"metadata has no \.npy file"):
        load_task("pathfinder")
