"""Lines about a calibration: how many layers are done, and nothing about a short one."""

from __future__ import annotations

import numpy as np
import pytest
import small_models

from aireprune.calibration import telling
from aireprune.calibration.telling import Telling
from aireprune.pruning.prune import prune_module
from aireprune.pruning.request import make_job
from aireprune.pruning.source import open_module


def test_layers_are_counted_and_other_modules_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now, lines = [0.0], []
    monkeypatch.setattr(telling.time, "monotonic", lambda: now[0])
    progress = Telling(lines.append, ["a", "b", "c"])
    for name, seconds in (("norm", 6.0), ("a", 10.0), ("b", 12.0), ("c", 30.0)):
        now[0] = seconds
        progress.finished(name)
    assert lines == ["calibration: 1 of 3 layers are fitted, about 20 s left"]


@pytest.mark.parametrize("every", [0.0, 600.0])
def test_a_model_in_memory(monkeypatch: pytest.MonkeyPatch, every: float) -> None:
    """Calibrated twice, as some of its states outlive the inputs."""
    monkeypatch.setattr(telling.Telling.__init__, "__defaults__", (every,))
    model, lines = small_models.s4d(), []
    inputs = np.random.default_rng(0).standard_normal((8, 40, 2)).astype(np.float32)
    prune_module(open_module(model), make_job(None, {"ratio": 0.5, "calibrate": inputs}), report=lines.append)
    assert [line.split(",")[0] for line in lines] == ["calibration: 1 of 2 layers are fitted"] * 2 * (every == 0)
