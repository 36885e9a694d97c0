"""Pathfinder: do two discs lie on the same contour? A picture read pixel by pixel; 128 x 128 of them are Path-X."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from aireprune.errors import AireError
from aireprune.tasks.base import VALIDATION_SEED, Split, Task, locate, lra, normalised
from aireprune.tasks.cache import cached, sections, stamp, write_arrays
from aireprune.tasks.contours import VERSION, Style, acceptance, draw_into
from aireprune.tasks.numpy_files import read_npy
from aireprune.tasks.png import read_png

SEED = 2018
LEVEL = "curv_contour_length_14"  # the hardest of LRA's three levels, the one everybody reports
COUNTS = (160_000, 20_000, 20_000)
MINI_COUNTS = (40_000, 2_000, 4_000)
CHUNK = 2_000

MINI = Style(16, (3, 4), 1, 2, dash=2, gap=1, apart=3.0, bend=12, drift=5, width=1.0, disc=1.3, brightness=150)
PATH32 = Style(32, (4, 5), 4, 2, dash=3, gap=2, apart=3.0, bend=10, drift=4, width=1.0, disc=1.5, brightness=200)
PATH128 = Style(128, (11, 13), 14, 4, dash=5, gap=3, apart=5.0, bend=6, drift=1, width=1.5, disc=2.5, brightness=200)


def pathfinder() -> Task:
    """32 x 32, 1,024 steps: LRA's pathfinder32 if it is there, else generated; 160,000 / 20,000 / 20,000 pictures."""
    return _paper("pathfinder", PATH32)


def pathx() -> Task:
    """128 x 128, 16,384 steps: LRA's pathfinder128 if it is there, else generated (3.3 GB on disk)."""
    return _paper("pathx", PATH128)


def pathfinder_mini() -> Task:
    """16 x 16, 256 steps, two contours of 8 to 11 pixels and one distractor; 40,000 / 2,000 / 4,000 generated pictures."""
    return _task("pathfinder-mini", MINI, sections(generated(MINI, sum(MINI_COUNTS)), *MINI_COUNTS))


def places(size: int) -> tuple[str, ...]:
    return lra(f"pathfinder{size}/{LEVEL}")


def _paper(name: str, style: Style) -> Task:
    level = locate(places(style.size))
    if level is not None:
        return _task(name, style, read_folder(level, style.size))
    return _task(name, style, sections(generated(style, sum(COUNTS)), *COUNTS))


def _task(name: str, style: Style, splits: list[Split]) -> Task:
    length = style.size**2
    return Task(name, length, 1, 2, normalised(length, 0.5, 0.5), *splits)


def generated(style: Style, count: int) -> Split:
    """Pictures by our generator, labels 1, 0, 1, 0, ...; made once and then read from the cache."""
    return cached(f"pathfinder{style.size}", (VERSION, style, count, SEED), lambda folder: _write(folder, style, count))


def _write(folder: Path, style: Style, count: int) -> None:
    x = open_memmap(folder / "x.npy", "w+", np.uint8, (count, style.size**2))
    keep, rng = acceptance(style, SEED), np.random.default_rng((SEED, 1))
    for start in range(0, count, CHUNK):  # an even number: every chunk begins with label 1
        draw_into(x[start : start + CHUNK].reshape(-1, style.size, style.size), style, keep, rng)
    x.flush()
    write_arrays(folder, y=1 - np.arange(count) % 2)


def read_folder(level: Path, size: int) -> list[Split]:
    """LRA's pictures, imgs/K/sample_I.png, listed in metadata/K.npy: 80, 10 and 10 % chosen by a seed, as in S5's code.

    They are decoded once, in the order of the splits, and then mapped from the cache: Path-X never is in memory whole.
    """
    lists = sorted((level / "metadata").glob("*.npy"), key=lambda path: (len(path.stem), path.stem))
    if not lists:
        raise AireError(f"{level / 'metadata'} has no .npy file that lists the pictures; unpack the LRA release again.")
    listed = [example for path in lists for example in read_metadata(path)]
    examples = [listed[row] for row in np.random.default_rng(VALIDATION_SEED).permutation(len(listed))]
    key = ([stamp(path) for path in lists], size)
    split = cached(f"pathfinder{size}-read", key, lambda folder: _decode(folder, level, examples, size))
    tenth = len(split) // 10
    return sections(split, len(split) - 2 * tenth, tenth, tenth)


def _decode(folder: Path, level: Path, examples: list[tuple[str, int]], size: int) -> None:
    x = open_memmap(folder / "x.npy", "w+", np.uint8, (len(examples), size**2))
    for row, (name, _) in enumerate(examples):
        picture = read_png(level / name)
        if picture.shape != (size, size):
            raise AireError(f"{level / name} has {picture.shape} pixels; ({size}, {size}) were expected.")
        x[row] = picture.reshape(-1)
    x.flush()
    write_arrays(folder, y=np.array([label for _, label in examples], np.int64))


def read_metadata(path: Path) -> list[tuple[str, int]]:
    """(picture below the level's folder, label) of every row `imgs/K sample_I.png NUMBER LABEL ...`.

    The release's files are named .npy but are lines of text; arrays of strings, as the original generator saved them,
    are read too.
    """
    try:
        data = path.read_bytes()
        if data.startswith(b"\x93NUMPY"):
            rows = [[str(cell) for cell in row] for row in read_npy(path)]
        else:
            rows = [line.split() for line in data.decode().splitlines() if line.strip()]
        return [(f"{row[0]}/{row[1]}", _label(row[3])) for row in rows]
    except (OSError, ValueError, IndexError, TypeError) as error:
        raise AireError(f"{path} is not a Pathfinder list (imgs/K sample_I.png NUMBER LABEL ...): {error}.") from error


def _label(cell: str) -> int:
    if cell not in ("0", "1"):
        raise ValueError(f"the label is {cell!r} instead of 0 or 1")
    return int(cell)
