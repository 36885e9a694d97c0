"""Lessons: every sequence once, then mixtures; none of those that judge."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aireprune.calibration.inputs import read_inputs
from aireprune.calibration.lessons import Lessons

VALUES = np.arange(64, dtype=np.float32)[:, None, None] * np.ones((1, 5, 2), np.float32)


def seen(lessons: Lessons, number: int) -> list[float]:
    """First values of the sequences of a pass."""
    steps = range(number * lessons.steps_in_a_pass, (number + 1) * lessons.steps_in_a_pass)
    return torch.cat([lessons[step].first[:, 0, 0] for step in steps]).tolist()


def test_the_first_pass_shows_sequences_as_they_are() -> None:
    lessons = Lessons(read_inputs(VALUES))
    judges = torch.cat([call.first[:, 0, 0] for call in lessons.judges]).tolist()
    assert sorted([*seen(lessons, 0), *judges]) == VALUES[:, 0, 0].tolist()


def test_later_passes_mix_what_is_learnt_from_and_are_repeatable() -> None:
    values = VALUES.copy()
    judges = [int(v) for call in Lessons(read_inputs(values)).judges for v in call.first[:, 0, 0]]
    values[judges] = 1e9
    lessons = Lessons(read_inputs(values))
    found = seen(lessons, 1)
    assert max(found) < 64
    assert any(value != round(value) for value in found)
    assert found == seen(Lessons(read_inputs(values)), 1)
    assert found != seen(lessons, 2)


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_tokens_are_never_mixed(kind: type) -> None:
    tokens = np.arange(64, dtype=kind)[:, None] * np.ones((1, 5), kind)
    lessons = Lessons(read_inputs(tokens))
    step = lessons.steps_in_a_pass
    assert set(lessons[step].first[:, 0].tolist()) <= set(range(64))
