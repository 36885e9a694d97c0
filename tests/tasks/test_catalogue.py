"""All tasks: what is said when data is missing, the list of tasks, and the real data where it is at hand."""

from __future__ import annotations

import pytest
from shared_data import shared

from aireprune.errors import AireError
from aireprune.tasks import TASKS, load_task
from aireprune.tasks.catalogue import EMBEDDED, GENERATED, PLACES, catalogue


@pytest.mark.parametrize("name", [name for name in TASKS if name not in (*GENERATED, *EMBEDDED)])
def test_missing_data_names_the_place_and_the_way(data, name):
    with pytest.raises(AireError) as error:
        load_task(name)
    message = str(error.value)
    assert str(data) in message
    assert "AIRE_DATA" in message
    assert PLACES[name][0] in message
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
    assert set(PLACES) | set(GENERATED) | set(EMBEDDED) == set(TASKS)


@pytest.mark.parametrize(
    ("name", "sizes", "shape"),
    [
        ("image", (45_000, 5_000, 10_000), (2, 1024, 1)),
        ("speech-mini", (3_589, 362, 939), (2, 1000, 8)),
        ("lm-mini", (3_921, 217, 217), (2, 256)),
    ],
)
def test_the_data_at_hand(monkeypatch, name, sizes, shape):
    monkeypatch.setenv("AIRE_DATA", str(shared(PLACES[name][0]).parent))
    task = load_task(name)
    assert (len(task.train), len(task.validation), len(task.test)) == sizes
    assert task.batch(task.test.rows(slice(0, 2))).x.shape == shape
