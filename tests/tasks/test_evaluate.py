"""Judging models: what does not fit is said, step sizes follow the sampling rate, and models are left as they were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import toy_experiments
from foreign_models import transformers_model

from aireprune.errors import AireError
from aireprune.models import accelerate
from aireprune.models.create import new_model
from aireprune.models.s5_config import S5Config
from aireprune.tasks import Split, Task
from aireprune.tasks import evaluate as module
from aireprune.tasks.base import normalised, tokens
from aireprune.tasks.evaluate import compare, evaluate, forward, per_example, sampled_as

CONFIG = S5Config(d_input=1, d_output=2, h=8, n=8, layers=1, bidirectional=True, dropout=0.1, C_init="lecun_normal")


@pytest.fixture
def task():
    """50 examples of 16 random values, with random answers."""
    rng = np.random.default_rng(0)
    split = Split(rng.integers(0, 256, (50, 16)).astype(np.uint8), rng.integers(0, 2, 50))
    return Task("toy", 16, 1, 2, normalised(16, 0.3, 0.25), split, split, split)


def test_answers_do_not_depend_on_the_batch(task):
    model = new_model(CONFIG, 0)
    expected = forward(model.eval(), task, task.test).argmax(-1).numpy() == task.test.y
    for batch in (None, 1, 7):
        np.testing.assert_array_equal(per_example(model, task, task.test, batch), expected)
    assert evaluate(model, task, task.test) == expected.mean()


@pytest.mark.parametrize("training", [True, False])
def test_a_model_is_in_the_mode_it_was_in(task, training):
    model = new_model(CONFIG, 0).train(training)
    statistics = model.layers[0].norm.running_mean.clone()
    evaluate(model, task, task.test)
    assert {part.training for part in model.modules()} == {training}
    assert torch.equal(model.layers[0].norm.running_mean, statistics)


def test_also_after_a_batch_that_fails(task):
    model = new_model(CONFIG, 0).train()
    broken = replace(task, decode=lambda x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        evaluate(model, broken, task.test)
    assert all(part.training for part in model.modules())


def test_a_task_at_half_the_sampling_rate_doubles_the_steps_for_the_time_being(task):
    model = new_model(CONFIG, 0)
    slow = replace(task, name="toy-8k", step_rescale=2.0)
    doubled = new_model(replace(CONFIG, step_rescale=2.0), 0)
    with sampled_as(model, slow):
        a = forward(model.eval(), slow, task.test)
    torch.testing.assert_close(a, forward(doubled.eval(), task, task.test))
    assert model.layers[0].seq.step_rescale == 1.0
    with pytest.raises(AireError, match="only S5 models"):
        evaluate(torch.nn.Linear(2, 2), slow, task.test)


def test_a_model_that_does_not_fit_the_task(task):
    model = new_model(CONFIG, 0)
    for change, message in (
        ({"classes": 3}, "gives 2 outputs, and the task has 3"),
        ({"d_input": 8}, "takes 1 values per step .*, and the task has 8"),
        ({"test": Split(task.test.x, np.zeros((50, 16), int))}, "asks about every step"),
    ):
        with pytest.raises(AireError, match=message):
            evaluate(model, replace(task, **change), task.test)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_inputs_that_are_not_finite_are_not_wrong_answers(task, value):
    x = np.zeros((50, 16, 1), np.float32)
    x[23, 5] = value
    own = replace(task, decode=lambda x: x)
    with pytest.raises(AireError, match="Example 23 of task toy holds values that are not finite"):
        evaluate(new_model(CONFIG, 0), own, Split(x, task.test.y), batch=10)


def test_outputs_that_are_not_finite_are_not_wrong_answers(task):
    model = new_model(CONFIG, 0)
    next(model.parameters()).data.fill_(torch.nan)
    with pytest.raises(AireError, match=r"outputs are not finite .* on task toy, examples 0 to 49"):
        evaluate(model, task, task.test)


@pytest.fixture
def language():
    """11 examples of 12 steps over 5 tokens, a model, and another one."""
    model, task = toy_experiments.language()
    return task, model, new_model(toy_experiments.LANGUAGE, 1).eval()


def test_a_comparison_is_what_its_definition_says(language):
    task, model, full = language
    ours, theirs = (torch.log_softmax(forward(one, task, task.test).double(), -1) for one in (model, full))
    found = compare(model, full, task, task.test, batch=4)
    np.testing.assert_allclose(found.metric, per_example(model, task, task.test))
    np.testing.assert_allclose(found.full_metric, per_example(full, task, task.test))
    answers = torch.from_numpy(task.test.y)
    bits = -ours.gather(-1, answers[..., None])[..., 0].mean(1) / np.log(2)
    np.testing.assert_allclose(found.metric, bits.detach(), rtol=1e-5)
    same = (ours.argmax(-1) == theirs.argmax(-1)).double().mean(1)
    np.testing.assert_allclose(found.agreement, same)
    divergence = torch.nn.functional.kl_div(ours, theirs, reduction="none", log_target=True).sum(-1).mean(1)
    np.testing.assert_allclose(found.divergence, divergence.detach(), rtol=1e-4)


def test_a_model_beside_itself(task):
    model = new_model(CONFIG, 0)
    found = compare(model, model, replace(task, step_rescale=2.0), task.test)
    assert np.array_equal(found.metric, found.full_metric)
    np.testing.assert_array_equal(found.metric, per_example(model, replace(task, step_rescale=2.0), task.test))
    assert found.agreement.min() == 1
    assert np.abs(found.divergence).max() == 0


def test_parts_of_the_outputs_give_what_all_of_them_give(language, monkeypatch):
    task, model, full = language
    expected = compare(model, full, task, task.test)
    monkeypatch.setattr(module, "PART_OUTPUTS", 15)  # three steps at a time
    found = compare(model, full, task, task.test)
    for name, values in vars(expected).items():
        np.testing.assert_allclose(getattr(found, name), values, rtol=1e-5)


def test_large_vocabularies_make_small_batches(task, language):
    assert module._examples_at_once(task) == module.BATCH_TOKENS // 16
    large = replace(language[0], length=1024, classes=50_000)
    assert module._examples_at_once(large) == 1


def test_bits_per_byte_of_longer_tokens(language):
    task, model, _ = language
    longer = replace(task, bytes_per_token=4.0)
    np.testing.assert_allclose(per_example(model, longer, task.test), per_example(model, task, task.test) / 4)
    unknown = replace(task, bytes_per_token=None)
    assert (longer.metric, unknown.metric) == ("bits per byte", "bits per token")
    np.testing.assert_array_equal(per_example(model, unknown, task.test), per_example(model, task, task.test))


def test_models_that_cannot_be_compared(language):
    task, model, _ = language
    other = new_model(replace(toy_experiments.LANGUAGE, d_input=6, d_output=6), 0)
    with pytest.raises(AireError, match=r"The full model does not fit task toy-language: it takes 6 values"):
        compare(model, other, task, task.test)
    with pytest.raises(AireError, match="one puts out 5 numbers, the other 6"):
        compare(model, other, replace(task, at_least=True), task.test)


def test_transformers_models_run_on_the_fast_scans_and_are_left_as_they_were(monkeypatch):
    pytest.importorskip("transformers")
    model = transformers_model("Mamba", state_size=6)
    x = np.random.default_rng(0).integers(0, 40, (3, 13))
    split = Split(x[:, :-1], x[:, 1:])
    task = Task("toy", 12, 40, 40, tokens, split, split, split)
    with torch.no_grad():
        logits = model(torch.from_numpy(split.x)).logits.transpose(1, 2)
        expected = torch.nn.functional.cross_entropy(logits, torch.from_numpy(split.y), reduction="none").mean(1)
    calls = []
    scan = accelerate.selective_scan
    monkeypatch.setattr(accelerate, "selective_scan", lambda *given, **more: calls.append(1) or scan(*given, **more))
    np.testing.assert_allclose(per_example(model, task, split), expected / np.log(2), rtol=1e-5)
    assert len(calls) == 3  # layers
    assert not any("forward" in vars(part) for part in model.modules())


def test_progress_and_batches_that_make_no_sense(task):
    seen = []
    per_example(new_model(CONFIG, 0), task, task.test, 20, lambda done, total: seen.append((done, total)))
    assert seen == [(20, 50), (40, 50), (50, 50)]
    with pytest.raises(AireError, match="batch=0 is no number of examples"):
        evaluate(new_model(CONFIG, 0), task, task.test, 0)
