"""What is said about sizes, and outputs of commands that fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from small_models import POST_NORM, s4d

import aireprune
from aireprune.cli.sizes import withdrawn_on_failure
from aireprune.experiments import evaluation


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_parameters_and_bytes_of_the_weights(aire, tmp_path, kind):
    model = s4d()
    source = tmp_path / ("in" if kind == "folder" else "in.pth")
    target = tmp_path / ("out" if kind == "folder" else "out.pth")
    if kind == "folder":
        aireprune.save(model, source)
    else:
        torch.save(model.state_dict(), source)
        source.with_suffix(".json").write_text(POST_NORM)
    code, out, _ = aire("prune", source, "-o", target, "--ratio", 0.5, "--layout", "uniform", "--json")
    assert code == 0
    found = json.loads(out)
    small = aireprune.load(target)
    assert found["parameters"] == [sum(p.numel() for p in m.parameters()) for m in (model, small)]
    weights = [path / "model.safetensors" if kind == "folder" else path for path in (source, target)]
    assert found["bytes"] == [path.stat().st_size for path in weights]


def own_task(path, classes=3):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 30, 2)).astype(np.float32), rng.integers(0, classes, 40)
    y[:classes] = np.arange(classes)
    np.savez(
        path, **{f"{part}_{what}": v for part in ("train", "validation", "test") for what, v in (("x", x), ("y", y))}
    )
    return path


def test_an_output_that_cannot_be_judged_is_taken_away(aire, tmp_path, monkeypatch):
    """The task is fine, but judging the output fails all the same."""
    torch.save(s4d().state_dict(), tmp_path / "in.pth")
    (tmp_path / "in.json").write_text(POST_NORM)
    (tmp_path / "out").mkdir()
    task = own_task(tmp_path / "task.npz")
    real = evaluation.evaluate_model

    def fails(*given, **more):
        assert (tmp_path / "out" / "x.pth").exists()
        raise aireprune.AireError("no more")

    monkeypatch.setattr(evaluation, "evaluate_model", fails)
    arguments = ("prune", tmp_path / "in.pth", "-o", tmp_path / "out" / "x.pth", "--ratio", 0.5, "--task", task)
    code, _, err = aire(*arguments)
    assert (code, err.splitlines()[-1]) == (1, "aire: no more")
    assert list((tmp_path / "out").iterdir()) == []
    monkeypatch.setattr(evaluation, "evaluate_model", real)
    assert aire(*arguments)[0] == 0


@pytest.mark.parametrize("task", ["digits", "task.npz"])
def test_a_task_that_is_not_there_or_does_not_fit_is_refused_first(aire, tmp_path, task):
    torch.save(s4d().state_dict(), tmp_path / "in.pth")
    own_task(tmp_path / "task.npz", classes=7)
    name = tmp_path / task if task.endswith(".npz") else task
    code, _, err = aire("prune", tmp_path / "in.pth", "-o", tmp_path / "out.pth", "--ratio", 0.5, "--task", name)
    assert code == 1
    assert "task" in err
    assert not (tmp_path / "out.pth").exists()


def test_the_target_and_the_inputs_are_checked_before_work(aire, tmp_path, monkeypatch):
    torch.save(s4d().state_dict(), tmp_path / "in.pth")
    (tmp_path / "there.pth").write_text("mine")
    monkeypatch.setattr("aireprune.tasks.material.load_task", lambda name: pytest.fail("work has begun"))
    code, _, err = aire("prune", tmp_path / "in.pth", "-o", tmp_path / "there.pth", "--max-drop", 1, "--task", "smnist")
    assert code == 1
    assert "exists already" in err
    arguments = ("--ratio", 0.5, "--calibrate", tmp_path / "nowhere.npy", "--task", "smnist")
    code, _, err = aire("prune", tmp_path / "in.pth", "-o", tmp_path / "new.pth", *arguments)
    assert code == 1
    assert "no inputs at" in err


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_was_there_before_stays(tmp_path, overwrite):
    (tmp_path / "out.json").write_text("mine")

    def fail():
        with withdrawn_on_failure(tmp_path / "out.pth", overwrite):
            (tmp_path / "out.pth").write_text("new")
            (tmp_path / "out.plan.json").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    left = ["out.json", "out.plan.json", "out.pth"] if overwrite else ["out.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_sigterm_leaves_nothing_behind(tmp_path):
    """A real `aire prune`, terminated while it judges its output."""
    torch.save(s4d().state_dict(), tmp_path / "in.pth")
    (tmp_path / "in.json").write_text(POST_NORM)
    (tmp_path / "out").mkdir()
    task, mark = own_task(tmp_path / "task.npz"), tmp_path / "judging"
    code = (
        "import time; from pathlib import Path; from aireprune.experiments import evaluation; from aireprune import cli\n"
        "def slow(*given, **more):\n"
        f"    Path({str(mark)!r}).touch()\n"
        "    time.sleep(60)\n"
        "evaluation.evaluate_model = slow\n"
        "cli.main()\n"
    )
    arguments = ["prune", tmp_path / "in.pth", "-o", tmp_path / "out" / "x.pth", "--ratio", "0.5", "--task", task]
    with subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.PIPE) as running:
        for _ in range(600):
            if mark.exists() or running.poll() is not None:
                break
            time.sleep(0.1)
        assert (tmp_path / "out" / "x.pth").exists()
        os.kill(running.pid, signal.SIGTERM)
        assert running.wait(timeout=30) == 143
    assert list((tmp_path / "out").iterdir()) == []
