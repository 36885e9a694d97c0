"""aire prune with a task: the ratio that a drop allows, and the test metric of what was written."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import toy_experiments

import aireprune
from aireprune.tasks import load_task
from aireprune.tasks.evaluate import evaluate


@pytest.fixture
def model_and_task(tmp_path):
    """A toy model, and a task that it answers rightly."""
    model, task = toy_experiments.classification()
    aireprune.save(model, tmp_path / "model")
    arrays = {}
    for part in ("train", "validation", "test"):
        x = task.inputs(getattr(task, part).x)
        arrays |= {f"{part}_x": x, f"{part}_y": answers(model, x)}
    np.savez(tmp_path / "task.npz", **arrays)
    return tmp_path / "model", tmp_path / "task.npz"


def answers(model, x):
    with torch.no_grad():
        return model(torch.from_numpy(x)).argmax(-1).numpy()


def test_the_test_metric_is_reported(aire, model_and_task, tmp_path):
    model, task = model_and_task
    code, out, err = aire("prune", model, "-o", tmp_path / "small", "--ratio", 0.5, "--task", task)
    assert code == 0, err
    loaded = load_task(str(task))
    value = evaluate(aireprune.load(tmp_path / "small"), loaded, loaded.test)
    assert f"Test on 70 examples: accuracy {100 * value:.2f} %." in out


def test_the_ratio_that_a_drop_allows(aire, model_and_task, tmp_path):
    model, task = model_and_task
    arguments = ("prune", model, "--task", task, "--max-drop", 20)
    code, out, err = aire(*arguments, "-o", tmp_path / "small", "--json")
    assert code == 0, err
    document = json.loads(out)
    judged = document["accuracy"]
    assert list(judged) == ["metric", "ratio", "full_validation", "validation", "tried", "test", "examples"]
    assert judged["full_validation"] - judged["validation"] <= 0.2
    assert document["plan"]["ratio"] == judged["ratio"] > 0
    assert f"ratio {judged['ratio']:.2f}: validation accuracy" in err
    code, out, _ = aire(*arguments, "-o", tmp_path / "again")
    assert f"at ratio {judged['ratio']:.2f} accuracy {100 * judged['validation']:.2f} %" in out


def test_options_that_do_not_go_together(refused, model_and_task, tmp_path):
    model, task = model_and_task
    with_task = ("--max-drop", 1, "--task", task)
    refused(model, "give it with --task, without --ratio and --threshold", "--max-drop", 1)
    refused(model, "give it with --task, without --ratio and --threshold", *with_task, "--ratio", 0.5)
    refused(model, "give it without --plan", *with_task, "--plan", tmp_path / "plan.json")
    refused(model, "There is no task 'chess'", "--ratio", 0.5, "--task", "chess")
