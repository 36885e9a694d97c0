"""The numbers of a measurement are those of the task."""

from __future__ import annotations

import pytest

import aireprune
from aireprune import embedded
from aireprune.reports.measured import measure
from aireprune.tasks import load_task
from aireprune.tasks.evaluate import evaluate


def test_both_models_on_the_same_examples(pruned):
    full, small, task = aireprune.load(embedded.MODEL), aireprune.load(pruned), load_task("digits")
    found = measure(full, small, "digits", 60)
    few = task.test.rows(slice(0, 60))
    assert found.before[0] == pytest.approx(100 * evaluate(full, task, few))
    assert found.after[0] == pytest.approx(100 * evaluate(small, task, few))
    assert found.after[1] < found.after[0] < found.after[2]
    assert found.loss == pytest.approx(found.before[0] - found.after[0])
    assert found.examples == 60
    assert found.speedup[1] <= found.speedup[0] <= found.speedup[2]
