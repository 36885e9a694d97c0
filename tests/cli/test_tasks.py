"""aire tasks."""

from __future__ import annotations

import json


def test_where_data_is_and_what_is_missing(aire, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRE_DATA", str(tmp_path))
    (tmp_path / "mnist.npz").touch()
    answer = json.loads(aire("tasks", "--json")[1])
    assert answer["data"] == str(tmp_path)
    assert {task["name"]: task["data"] for task in answer["tasks"]}["smnist"] == str(tmp_path / "mnist.npz")
    code, out, _ = aire("tasks")
    assert code == 0
    assert all(word in out for word in (str(tmp_path), "missing", "generated", "mnist.npz"))
