"""Training: an interrupted run ends where an uninterrupted one does, and it learns."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import aireprune
from aireprune.errors import AireError
from aireprune.models.s5_config import S5Config
from aireprune.tasks import Split, Task
from aireprune.tasks.base import normalised, tokens
from aireprune.tasks.evaluate import evaluate
from aireprune.training import recipes
from aireprune.training.loop import Recipe, parameter_groups, train_model
from aireprune.training.workers import Workers

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


LAYER_NORM = replace(CONFIG, dropout=0.0, batchnorm=False)
WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_loop import LAYER_NORM, toy_task
from aireprune.training.loop import Recipe, parameter_groups, train_model
from aireprune.training.workers import Workers
train_model(toy_task(), LAYER_NORM, Recipe(epochs=1, batch=20), Path(sys.argv[2]), stop_after=2)  # then resumed
train_model(toy_task(), LAYER_NORM, Recipe(epochs=1, batch=20), Path(sys.argv[2]))
"""


def test_two_processes_train_the_model_that_one_does(tmp_path):
    alone = train_model(toy_task(), LAYER_NORM, Recipe(epochs=1, batch=20), tmp_path / "alone")
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(free_port()),
    ]
    done = subprocess.run(
        [*command, str(script), str(Path(__file__).parent), str(tmp_path / "both")],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    both = torch.load(tmp_path / "both" / "training.pt", weights_only=True)["model"]
    for name, weights in alone.state_dict().items():
        torch.testing.assert_close(both[name], weights, rtol=1e-4, atol=1e-6, msg=name)
    assert json.loads((tmp_path / "both" / "training.json").read_text())["history"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_batch_that_cannot_be_shared():
    with pytest.raises(AireError, match="cannot be shared by 3"):
        Workers(0, 3, torch.device("cpu")).share(20)


@pytest.mark.parametrize("family", recipes.FAMILIES)
@pytest.mark.parametrize("kind", ["classes", "language", "pairs"])
def test_every_family_takes_every_kind_of_task(tmp_path, family, kind):
    task = small_task(kind)
    config = recipes.model_config(task, family, "mini", layers=1, features=8, states=8, blocks=1)
    recipe = Recipe(epochs=2, batch=8, seed=1)
    model = train_model(task, config, recipe, tmp_path / "run")
    aireprune.save(model, tmp_path / "model")
    again = aireprune.load(tmp_path / "model")
    assert evaluate(again, task, task.test) == evaluate(model, task, task.test)
    groups = parameter_groups(model, recipe)
    named = {id(p): name for name, p in model.named_parameters()}
    assert sorted(named) == sorted(id(p) for group in groups for p in group["params"])
    poles = {"s5": "Lambda_re", "s4d": "log_A_real", "mamba": "A_log"}[family]
    assert any(named[id(p)].endswith(poles) for p in groups[0]["params"])
    assert not any("decoder" in named[id(p)] for p in groups[0]["params"])
    small = aireprune.prune(model, ratio=0.5)
    assert np.isfinite(evaluate(small, task, task.test))


def small_task(kind):
    rng = np.random.default_rng(0)
    shape = {"classes": (24, 12), "language": (24, 12), "pairs": (24, 2, 12)}[kind]

    def split():
        x = rng.integers(1, 7, shape).astype(np.uint8)
        y = rng.integers(0, 7, shape) if kind == "language" else rng.integers(0, 2, 24)
        lengths = None if kind == "language" else rng.integers(3, 13, shape[:-1])
        return Split(x, y, lengths)

    base = {"classes": "listops-mini", "language": "lm-mini", "pairs": "retrieval-mini"}[kind]
    return Task(base, 12, 7, 7 if kind == "language" else 2, tokens, split(), split(), split())


def test_bf16_autocast_trains(tmp_path):
    """In a process of its own, so that a crash would not end the tests."""
    script = tmp_path / "bf16.py"
    script.write_text(WORKER.replace("batch=20)", "batch=20, precision='bf16')"))
    command = [sys.executable, str(script), str(Path(__file__).parent), str(tmp_path / "run")]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "training.json").read_text())
    assert summary["recipe"]["precision"] == "bf16"
    weights = torch.load(tmp_path / "run" / "training.pt", weights_only=True)["model"]
    assert all(tensor.dtype == torch.float32 for name, tensor in weights.items() if name.endswith(("weight", "B")))
    with pytest.raises(AireError, match="expected one of float32, bf16"):
        Recipe(precision="fp8")


def test_bf16_that_would_crash_is_refused(tmp_path, monkeypatch):
    killed = subprocess.CompletedProcess([], -4)
    monkeypatch.setattr("aireprune.training.loop.subprocess.run", lambda *arguments, **options: killed)
    with pytest.raises(AireError, match="ONEDNN_MAX_CPU_ISA"):
        train_model(toy_task(), CONFIG, Recipe(epochs=1, batch=20, precision="bf16"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_papers_hyperparameters():
    text = recipes.training_recipe("text", "s5", "paper")
    assert (text.lr, text.ssm_lr, text.batch, text.epochs, text.weight_decay) == (4e-3, 1e-3, 50, 35, 0.07)
    config = recipes.model_config(replace(small_task("classes"), name="pathx"), "s5", "paper")
    assert (config.layers, config.h, config.n, config.blocks, config.dropout) == (6, 128, 256, 16, 0.0)
    assert (config.dt_min, config.dt_max, config.batchnorm, config.prenorm) == (0.001, 0.1, True, True)
