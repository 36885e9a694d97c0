"""Pathfinder: the generated task, and folders of the LRA release with their PNG files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from png_files import png

from aireprune.errors import AireError
from aireprune.tasks import contours, load_task
from aireprune.tasks import pathfinder as module


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(contours, "PILOT", 1500)


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
