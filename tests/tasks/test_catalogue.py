"""All tasks: what is said when data is missing, the list of tasks, and the real data where it is at hand."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from shared_data import shared

from aireprune.cli import main
from aireprune.errors import AireError
from aireprune.tasks import TASKS, load_task
from aireprune.tasks.cache import cached, write_arrays
from aireprune.tasks.catalogue import GENERATED, LAYOUTS, catalogue


@pytest.mark.parametrize("name", [name for name in TASKS if name not in GENERATED])
def test_missing_data_names_the_place_and_the_way(data, name):
    with pytest.raises(AireError) as error:
        load_task(name)
    message = str(error.value)
    assert str(data) in message
    assert "AIRE_DATA" in message
    assert LAYOUTS[name][0] in message
    assert any(word in message for word in ("Put ", "Unpack "))


def test_an_unknown_task_is_named():
    with pytest.raises(AireError, match="no task 'chess'"):
        load_task("chess")


def test_the_list_of_tasks(data):
    (data / "mnist.npz").touch()
    entries = {entry.name: entry for entry in catalogue()}
    assert list(entries) == list(TASKS)
    assert all(entry.what.endswith((".", "?")) for entry in entries.values())
    assert entries["smnist"].data == str(data / "mnist.npz")
    assert entries["listops"].data == "generated"
    assert entries["speech"].data is None
    assert set(LAYOUTS) | set(GENERATED) == set(TASKS)


def test_the_command(data, capsys, monkeypatch):
    (data / "mnist.npz").touch()
    monkeypatch.setattr(sys, "argv", ["aire", "tasks", "--json"])
    with suppress(SystemExit):
        main()
    answer = json.loads(capsys.readouterr().out)
    assert answer["data"] == str(data)
    assert {task["name"]: task["data"] for task in answer["tasks"]}["smnist"] == str(data / "mnist.npz")
    monkeypatch.setattr(sys, "argv", ["aire", "tasks"])
    with suppress(SystemExit):
        main()
    text = capsys.readouterr().out
    assert all(word in text for word in ("missing", "generated", "mnist.npz"))


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
    with pytest.raises(AireError, match=r"x\.npy cannot be read .* Delete its folder"):
        [cached("toy", ("a", k), write) for k in (1, 2)]


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


@pytest.mark.parametrize(
    ("name", "sizes", "shape"),
    [
        ("image", (45_000, 5_000, 10_000), (2, 1024, 1)),
        ("speech-mini", (3_589, 362, 939), (2, 1000, 8)),
        ("lm-mini", (3_921, 217, 217), (2, 256)),
    ],
)
def test_the_data_at_hand(monkeypatch, name, sizes, shape):
    monkeypatch.setenv("AIRE_DATA", str(shared(LAYOUTS[name][0]).parent))
    task = load_task(name)
    assert (len(task.train), len(task.validation), len(task.test)) == sizes
    assert task.batch(task.test.rows(slice(0, 2))).x.shape == shape
