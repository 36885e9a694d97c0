"""The model and the digits that come with the package."""

from __future__ import annotations

import json

import numpy as np
from shared_data import shared

import aireprune
from aireprune import embedded
from aireprune.tasks import load_task
from aireprune.tasks.evaluate import evaluate


def test_the_embedded_model_is_what_it_is_said_to_be():
    model, task = aireprune.load(embedded.MODEL), embedded.digits()
    assert evaluate(model, task, task.test.rows(slice(0, 200))) >= 0.98
    assert len(task.test) == 1000
    summary = json.loads((embedded.MODEL / "training.json").read_text())
    assert summary["test"] >= 0.98
    assert (embedded.MODEL / "model.safetensors").stat().st_size <= 1_000_000


def test_the_embedded_digits_are_mnists():
    shared("mnist.npz")
    full = load_task("smnist")
    np.testing.assert_array_equal(embedded.digits().test.x, full.test.x[:1000])
    assert len(full.train) == 55000
    assert len(full.validation) == 5000
