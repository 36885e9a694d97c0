"""Tasks that a small model learns in seconds, and a program that trains one in processes of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from aireprune.models.s5_config import S5Config
from aireprune.tasks import Split, Task
from aireprune.tasks.base import normalised, tokens

CONFIG = S5Config(d_input=1, d_output=2, h=8, n=8, layers=1, bidirectional=True, dropout=0.1, C_init="lecun_normal")
LAYER_NORM = replace(CONFIG, dropout=0.0, batchnorm=False)
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from toys import LAYER_NORM, brighter_half
from aireprune.training.loop import Conditions, train_model
from aireprune.training.recipes import Recipe
recipe, folder = Recipe(epochs=1, batch=20, precision=sys.argv[3]), Path(sys.argv[2])
train_model(brighter_half(), LAYER_NORM, recipe, folder, Conditions(stop_after=2))  # then resumed
train_model(brighter_half(), LAYER_NORM, recipe, folder)
"""


def program(folder: Path, precision: str = "float32") -> list[str]:
    """A script, and its arguments: LAYER_NORM trained on `brighter_half` into folder/run, interrupted once."""
    script = folder / "program.py"
    script.write_text(PROGRAM)
    return [str(script), str(Path(__file__).parent), str(folder / "run"), precision]


def brighter_half(count: int = 200, length: int = 16) -> Task:
    """Which half of the sequence is brighter: half of the examples to train, a quarter each to validate and to test."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, count)
    x = rng.integers(0, 90, (count, length))
    x[np.arange(count)[:, None], np.arange(length // 2)[None, :] + (length // 2) * y[:, None]] += 120
    x = x.astype(np.uint8)
    parts = [Split(x[i::4], y[i::4].astype(np.int64)) for i in range(4)]
    train = Split(np.concatenate([parts[0].x, parts[1].x]), np.concatenate([parts[0].y, parts[1].y]))
    return Task("toy", length, 1, 2, normalised(length, 0.3, 0.25), train, parts[2], parts[3])


def random_tokens(kind: str) -> Task:
    """24 random sequences of tokens: of `classes`, of `pairs`, or to be continued (`language`)."""
    rng = np.random.default_rng(0)
    shape = {"classes": (24, 12), "language": (24, 12), "pairs": (24, 2, 12)}[kind]

    def split() -> Split:
        x = rng.integers(1, 7, shape).astype(np.uint8)
        y = rng.integers(0, 7, shape) if kind == "language" else rng.integers(0, 2, 24)
        lengths = None if kind == "language" else rng.integers(3, 13, shape[:-1])
        return Split(x, y, lengths)

    base = {"classes": "listops-mini", "language": "lm-mini", "pairs": "retrieval-mini"}[kind]
    return Task(base, 12, 7, 7 if kind == "language" else 2, tokens, split(), split(), split())
