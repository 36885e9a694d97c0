"""The cache: made once, by whoever is first, and never half."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aireprune.errors import AireError
from aireprune.tasks.cache import cached, write_arrays


def test_the_cache(data, tmp_path):
    calls = []

    def write(folder: Path) -> None:
        calls.append(folder)
        write_arrays(folder, x=np.arange(6).reshape(3, 2), y=np.arange(3))

    first = cached("toy", ("a", 1), write)
    assert np.array_equal(cached("toy", ("a", 1), write).x, first.x)
    assert len(calls) == 1
    cached("toy", ("a", 2), write)
    assert len(calls) == 2
    assert first.lengths is None

    def fail(folder: Path) -> None:
        (folder / "x.npy").touch()
        raise AireError("a bad picture")

    with pytest.raises(AireError, match="a bad picture"):
        cached("toy", "b", fail)
    assert len(list((tmp_path / "cache").iterdir())) == 2
    broken = next((tmp_path / "cache").iterdir()) / "x.npy"
    broken.write_bytes(broken.read_bytes()[:40])
    again = [cached("toy", ("a", k), write).x for k in (1, 2)]
    assert all(np.array_equal(x, np.arange(6).reshape(3, 2)) for x in again)
    assert len(calls) == 3

    def wrong(folder: Path) -> None:
        write_arrays(folder, x=np.arange(6).reshape(3, 2), y=np.arange(2))

    with pytest.raises(AireError, match=r"toy-.* cannot be read \(its arrays do not belong together\)"):
        cached("toy", "c", wrong)


def test_of_two_processes_the_first_makes_the_cache():
    def write(folder: Path, value: int) -> None:
        write_arrays(folder, x=np.full((2, 2), value), y=np.arange(2))

    def slow(folder: Path) -> None:
        cached("toy", "race", lambda other: write(other, 1))
        write(folder, 2)

    assert cached("toy", "race", slow).x[0, 0] == 1


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("AIRE_CACHE", str(tmp_path / "file"))
    with pytest.raises(AireError, match=r"file/toy-.* cannot be written .* AIRE_CACHE"):
        cached("toy", "x", lambda folder: None)
