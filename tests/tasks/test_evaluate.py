"""Judging models: what does not fit is said, step sizes follow the sampling rate, and models are left as they were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from aireprune.errors import AireError
from aireprune.models.create import new_model
from aireprune.models.s5_config import S5Config
from aireprune.tasks import Split, Task
from aireprune.tasks.base import normalised
from aireprune.tasks.evaluate import evaluate, forward, per_example, sampled_as

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
