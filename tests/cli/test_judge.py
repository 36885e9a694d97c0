"""aire prune with a task or a text: the ratio that a drop allows, and what was written beside the full model."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import toy_experiments

import aireprune
from aireprune.models.create import new_model
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
    (row,) = [line.split() for line in out.splitlines() if line.startswith("accuracy")]
    assert row[1] == "100.00"  # the full model
    assert f"{100 * value:.2f}" == row[8]
    assert f"{task}: 70 test examples" in out
    found = aireprune.evaluate(tmp_path / "small", task=str(task), against=model)
    assert f"{100 * found.against.agreement.value:.2f} % of the answers are the same" in out


def test_the_ratio_that_a_drop_allows(aire, model_and_task, tmp_path):
    model, task = model_and_task
    arguments = ("prune", model, "--task", task, "--max-drop", 20)
    code, out, err = aire(*arguments, "-o", tmp_path / "small", "--json")
    assert code == 0, err
    document = json.loads(out)
    judged = document["metric"]
    search = ["ratio", "full_validation", "validation", "tried"]
    assert list(judged) == ["name", *search, "full_test", "test", "examples", "evaluation"]
    assert judged["evaluation"]["score"]["metric"]["value"] == judged["test"]
    assert judged["evaluation"]["against"]["full"]["metric"]["value"] == judged["full_test"] == 1
    assert judged["full_validation"] - judged["validation"] <= 0.2
    assert document["plan"]["ratio"] == judged["ratio"] > 0
    assert f"ratio {judged['ratio']:.2f}: validation accuracy" in err
    code, out, _ = aire(*arguments, "-o", tmp_path / "again")
    assert f"at ratio {judged['ratio']:.2f} accuracy {100 * judged['validation']:.2f} %" in out


def test_options_that_do_not_go_together(refused, model_and_task, tmp_path):
    model, task = model_and_task
    with_task = ("--max-drop", 1, "--task", task)
    refused(model, "give it with --task or --text, without --ratio and --threshold", "--max-drop", 1)
    refused(model, "give it with --task or --text, without --ratio and --threshold", *with_task, "--ratio", 0.5)
    refused(model, "either a task (--task NAME) or a text", *with_task, "--text", task)
    refused(model, "give it without --plan", *with_task, "--plan", tmp_path / "plan.json")
    refused(model, "There is no task 'chess'", "--ratio", 0.5, "--task", "chess")


@pytest.fixture
def language_model_and_text(tmp_path):
    model = new_model(replace(toy_experiments.LANGUAGE, d_input=256, d_output=256), 0).eval()
    aireprune.save(model, tmp_path / "model")
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 130)
    return tmp_path / "model", text


def test_a_text_before_and_after(aire, language_model_and_text, tmp_path):
    model, text = language_model_and_text
    code, out, err = aire("prune", model, "-o", tmp_path / "small", "--ratio", 0.5, "--text", text, "--json")
    assert code == 0, err
    found = aireprune.evaluate(tmp_path / "small", text=text, against=model)
    assert json.loads(out)["metric"]["evaluation"] == json.loads(json.dumps(found.to_dict()))


def test_a_drop_of_a_text_is_per_cent_of_bits(aire, language_model_and_text, tmp_path):
    """Chosen on the first half of the windows, reported on the second."""
    model, text = language_model_and_text
    code, out, err = aire("prune", model, "-o", tmp_path / "small", "--max-drop", 1, "--text", text, "--json")
    assert code == 0, err
    judged = json.loads(out)["metric"]
    half = tmp_path / "half.txt"
    half.write_text(text.read_text()[: 2 * 1024 + 1])  # of five windows, the first two
    expected = aireprune.evaluate(tmp_path / "small", text=half, against=model)
    assert judged["name"] == "bits per byte"
    assert judged["validation"] == pytest.approx(expected.score.metric.value)
    assert judged["full_validation"] == pytest.approx(expected.against.full.metric.value)
    assert judged["validation"] <= 1.01 * judged["full_validation"]
    assert judged["examples"] == 3
    assert judged["evaluation"]["data"] == f"{text}, second half"


def test_a_model_that_a_text_does_not_fit(refused, model_and_task, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("some text")
    refused(model_and_task[0], "S5Model does not predict tokens", "--ratio", 0.5, "--text", text)
