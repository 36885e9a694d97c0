"""Scores, intervals and comparisons, from a model, a path, or both."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from helpers import GOLDEN

import aireprune
from aireprune.errors import AireError
from aireprune.experiments.evaluation import Candidate, evaluate_model, judge
from aireprune.experiments.statistics import interval, paired_interval, paired_p_value
from aireprune.models.create import new_model
from aireprune.tasks.evaluate import compare, per_example
from aireprune.tasks.material import Material


def test_accuracy(toy):
    model, task = toy
    found = evaluate_model(model, task)
    right = per_example(model, task, task.test)
    assert (found.data, found.metric, found.examples, found.length) == ("toy", "accuracy", 70, 24)
    assert (found.score.metric.value, (found.score.metric.low, found.score.metric.high)) == (
        right.mean(),
        interval(right),
    )
    assert (found.score.perplexity, found.against, found.language) == (None, None, False)


@pytest.mark.parametrize("per_token", [1.0, 3.5, None])
def test_perplexity_is_that_of_a_token(toy_language, per_token):
    model, task = toy_language
    found = evaluate_model(model, replace(task, bytes_per_token=per_token))
    plain = per_example(model, task, task.test).mean()
    assert found.score.metric.value == pytest.approx(plain / (per_token or 1))
    assert found.score.perplexity.value == pytest.approx(2**plain)
    assert found.score.perplexity.low < found.score.perplexity.value < found.score.perplexity.high
    assert found.bytes_per_token == per_token


def test_beside_the_full_model(toy):
    model, task = toy
    small = aireprune.prune(model, ratio=0.7)
    found, raw = evaluate_model(small, task, model), compare(small, model, task, task.test)
    beside = found.against
    assert beside.full == evaluate_model(model, task).score
    assert found.score == evaluate_model(small, task).score
    assert beside.difference.value == pytest.approx(found.score.metric.value - beside.full.metric.value)
    low, high = paired_interval(raw.metric, raw.full_metric)
    assert (beside.difference.low, beside.difference.high) == (low, high)
    assert beside.p == paired_p_value(raw.metric, raw.full_metric)
    assert beside.agreement.value == raw.agreement.mean()
    assert beside.divergence.low <= beside.divergence.value == raw.divergence.mean() > 0


def test_one_window_has_no_interval(toy_language):
    model, task = toy_language
    found = evaluate_model(model, replace(task, test=task.test.rows(slice(1))), model)
    assert math.isinf(found.score.metric.high)
    assert math.isinf(found.against.agreement.high)
    assert found.score.perplexity.low == 0
    assert found.against.p == 1


def test_a_hopeless_model_has_an_infinite_perplexity(toy_language):
    model, task = toy_language
    new = new_model(model.config, 0)
    new.decoder.weight.data.mul_(1e5)
    assert evaluate_model(new, task).score.perplexity.value == math.inf


def test_paths_and_models_are_judged_alike(toy, tmp_path):
    model, task = toy
    small = aireprune.prune(model, ratio=0.5)
    aireprune.save(model, tmp_path / "full")
    aireprune.save(small, tmp_path / "small")
    material = Material(task=task, count=50)
    expected = judge(Candidate(model=small, against=model), material)
    assert judge(Candidate(model=tmp_path / "small", against=str(tmp_path / "full")), material) == expected
    assert (
        json.loads(json.dumps(expected.to_dict()))["against"]["agreement"]["value"] == expected.against.agreement.value
    )
    with pytest.raises(AireError, match="Expected a model or the path"):
        judge(Candidate(model=5), material)


def test_a_configuration_is_for_the_file_that_has_none(tmp_path):
    """The pruned file has its own beside it, with its own sizes; the original has none."""
    name = "bidir_bn_half_glu2"
    config = json.loads((GOLDEN / f"{name}.json").read_text())
    (tmp_path / "full.msgpack").write_bytes((GOLDEN / f"{name}.msgpack").read_bytes())
    aireprune.prune_file(tmp_path / "full.msgpack", tmp_path / "small.msgpack", ratio=0.5, config=config)
    data = np.load(GOLDEN / f"{name}.npz")
    arrays = {"x": data["x"], "y": np.zeros(len(data["x"]), int)}
    parts = ("train", "validation", "test")
    np.savez(tmp_path / "task.npz", **{f"{part}_{key}": arrays[key] for part in parts for key in arrays})
    found = aireprune.evaluate(
        tmp_path / "small.msgpack", task=str(tmp_path / "task.npz"), against=tmp_path / "full.msgpack", config=config
    )
    assert found.against.divergence.value > 0
