"""Kills at file-system events of a write: nothing is lost, and the next run succeeds; see run.py for every event."""

import logging

import pytest
from faults.crash import SCENARIOS, crash_points, numbered

import aireprune.files.flax.checkpoint
import aireprune.files.torch.checkpoint  # noqa: F401  (both before the first fork)

STEP = 4


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
@pytest.mark.parametrize("then_open", [True, False])
def test_a_killed_write_loses_nothing(scenario, then_open, scratch, caplog):
    caplog.set_level(logging.ERROR)
    assert crash_points(scenario, numbered(scratch), STEP, then_open) >= 3
