from __future__ import annotations

import numpy as np
import pytest

from aireprune.models.create import new_model
from aireprune.models.s5_config import S5Config
from aireprune.tasks.base import Split, Task, normalised, tokens


@pytest.fixture
def toy():
    """An untrained S5 and a classification task of 60 validation and 70 test examples."""
    rng = np.random.default_rng(0)

    def split(count):
        return Split(rng.integers(0, 255, (count, 24)).astype(np.uint8), rng.integers(0, 3, count))

    task = Task("toy", 24, 1, 3, normalised(24, 0.5, 0.3), split(40), split(60), split(70))
    config = S5Config(d_input=1, d_output=3, h=6, n=16, layers=2, bidirectional=True, C_init="lecun_normal")
    return new_model(config, 0).eval(), task


@pytest.fixture
def toy_language():
    """An untrained causal S5 and a task of next bytes."""
    rng = np.random.default_rng(0)

    def split(count):
        x = rng.integers(0, 5, (count, 13))
        return Split(x[:, :-1].astype(np.uint8), x[:, 1:])

    task = Task("toy-language", 12, 5, 5, tokens, split(8), split(9), split(11))
    config = S5Config(d_input=5, d_output=5, h=6, n=16, layers=2, mode="tokens", C_init="lecun_normal")
    return new_model(config, 0).eval(), task
