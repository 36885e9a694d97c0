"""Training: an interrupted run ends where an uninterrupted one does, and it learns."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import aireprune
from aireprune import embedded
from aireprune.errors import AireError
from aireprune.evaluate import evaluate
from aireprune.nn.s5_config import S5Config
from aireprune.tasks import Split, Task, data_folder, load_task
from aireprune.tasks.base import normalised
from aireprune.train import Recipe, train_model

CONFIG = S5Config(d_input=1, d_output=2, h=8, n=8, layers=1, bidirectional=True, dropout=0.1, C_init="lecun_normal")


def toy_task(count=200, length=16):
    """Which half of the sequence is brighter."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, count)
    x = rng.integers(0, 90, (count, length))
    x[np.arange(count)[:, None], np.arange(length // 2)[None, :] + (length // 2) * y[:, None]] += 120
    x = x.astype(np.uint8)
    parts = [Split(x[i::4], y[i::4].astype(np.int64)) for i in range(4)]
    train = Split(np.concatenate([parts[0].x, parts[1].x]), np.concatenate([parts[0].y, parts[1].y]))
    return Task("toy", length, 1, 2, normalised(length, 0.3, 0.25), train, parts[2], parts[3])


def test_a_resumed_run_ends_in_the_same_weights(tmp_path):
    task, recipe = toy_task(), Recipe(epochs=3, batch=20)
    straight = train_model(task, CONFIG, recipe, tmp_path / "a")
    train_model(task, CONFIG, recipe, tmp_path / "b", stop_after=7)
    resumed = train_model(task, CONFIG, recipe, tmp_path / "b")
    for (name, a), b in zip(straight.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    a, b = (json.loads((tmp_path / run / "training.json").read_text()) for run in "ab")
    assert [h["validation"] for h in a["history"]] == [h["validation"] for h in b["history"]]
    other = train_model(task, CONFIG, Recipe(epochs=3, batch=20, seed=1), tmp_path / "c")
    assert not torch.equal(other.encoder.weight, straight.encoder.weight)


def test_other_settings_do_not_resume(tmp_path):
    task = toy_task()
    train_model(task, CONFIG, Recipe(epochs=1, batch=20), tmp_path, stop_after=1)
    with pytest.raises(AireError, match="other settings"):
        train_model(task, CONFIG, Recipe(epochs=2, batch=20), tmp_path)


def test_it_learns(tmp_path):
    task = toy_task(400)
    model = train_model(task, CONFIG, Recipe(epochs=12, batch=20, lr=1e-2), tmp_path)
    assert evaluate(model, task, task.test) > 0.9


def test_unknown_task_and_missing_data(monkeypatch, tmp_path):
    with pytest.raises(AireError, match="no task 'chess'"):
        load_task("chess")
    monkeypatch.setenv("AIRE_DATA", str(tmp_path))
    with pytest.raises(AireError, match=r"mnist\.npz, which is not there"):
        load_task("smnist")


def test_the_embedded_model_is_what_it_is_said_to_be():
    model, task = aireprune.load(embedded.MODEL), embedded.digits()
    part = Split(task.test.x[:200], task.test.y[:200])
    assert evaluate(model, task, part) >= 0.98
    assert len(task.test) == 1000
    summary = json.loads((embedded.MODEL / "training.json").read_text())
    assert summary["test"] >= 0.98
    assert (embedded.MODEL / "model.safetensors").stat().st_size <= 1_000_000


def test_the_embedded_digits_are_mnists():
    if not (data_folder() / "mnist.npz").is_file():
        pytest.skip(f"{data_folder() / 'mnist.npz'} is not here (set AIRE_DATA to a folder that has it)")
    full = load_task("smnist")
    np.testing.assert_array_equal(embedded.digits().test.x, full.test.x[:1000])
    assert len(full.train) == 55000
    assert len(full.validation) == 5000
