"""Untrained models, tasks of random data and a zoo of two models: experiments with them take seconds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import aireprune
from aireprune.models.create import new_model
from aireprune.models.s5_config import S5Config
from aireprune.tasks.base import Split, Task, normalised, tokens

CONFIG = S5Config(d_input=1, d_output=3, h=6, n=16, layers=2, bidirectional=True, C_init="lecun_normal")
LANGUAGE = S5Config(d_input=5, d_output=5, h=6, n=16, layers=2, mode="tokens", C_init="lecun_normal")
TRAINING = {
    "task": "image",
    "test": 0.5,
    "metric": "accuracy",
    "seconds": 120.0,
    "history": [{"validation": 0.4}],
    "recipe": {"epochs": 3, "seed": 0},
}


def classification() -> tuple[nn.Module, Task]:
    """An S5 and a task of 60 validation and 70 test examples."""
    rng = np.random.default_rng(0)

    def split(count: int) -> Split:
        return Split(rng.integers(0, 255, (count, 24)).astype(np.uint8), rng.integers(0, 3, count))

    task = Task("toy", 24, 1, 3, normalised(24, 0.5, 0.3), split(40), split(60), split(70))
    return new_model(CONFIG, 0).eval(), task


def language() -> tuple[nn.Module, Task]:
    """A causal S5 and a task of next bytes."""
    rng = np.random.default_rng(0)

    def split(count: int) -> Split:
        x = rng.integers(0, 5, (count, 13))
        return Split(x[:, :-1].astype(np.uint8), x[:, 1:])

    return new_model(LANGUAGE, 0).eval(), Task("toy-language", 12, 5, 5, tokens, split(8), split(9), split(11))


def sweep_arguments(folder: Path) -> tuple[Any, ...]:
    """Of `aire sweep`, but for the output: the model and the task in files, two variants at two ratios."""
    model, task = classification()
    aireprune.save(model, folder / "model")
    save_task(task, folder / "task.npz")
    choices = ("--methods", "aire,random", "--ratios", "0.25,0.5", "--seeds", 2, "--examples", 40)
    return (folder / "model", "--task", folder / "task.npz", *choices)


def save_task(task: Task, path: Path) -> None:
    """As a task of one's own."""
    arrays = {}
    for part in ("train", "validation", "test"):
        split = getattr(task, part)
        arrays |= {f"{part}_x": task.inputs(split.x), f"{part}_y": split.y}
    np.savez(path, **arrays)


def make_zoo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """folder/zoo with two models under names of the zoo, one of them with two seeds; few ratios and variants, and the toy
    task in place of theirs."""
    from aireprune.experiments.paper import models, reproduction, run, seeds, speed
    from aireprune.experiments.paper.models import ZooModel
    from aireprune.experiments.variants import Variant

    variants = (*(Variant.of(name) for name in ("random", "last", "aire")), Variant.of("aire", "balanced", True))
    zoo = (ZooModel("image", "s5"), ZooModel("text", "s5"))
    for module in (models, seeds):
        monkeypatch.setattr(module, "variants", lambda family: variants)
    monkeypatch.setattr(
        models, "ablations", lambda family, length: (Variant.of("aire"), Variant.of("aire", epsilon=0.01))
    )
    monkeypatch.setattr(models, "RATIOS", (0.0, 0.5))
    monkeypatch.setattr(models, "ABLATION_RATIOS", (0.0, 0.5))
    other = ZooModel("text", "s5", 1)
    monkeypatch.setattr(reproduction, "ZOO", {"mini": zoo})
    monkeypatch.setattr(reproduction, "SEEDED", {"mini": ((zoo[1], other),)})
    monkeypatch.setattr(seeds, "RATIOS", (0.0, 0.5))
    _, task = classification()
    for module in (run, speed):
        monkeypatch.setattr(module, "load_task", lambda name: replace(task, name=name))
    for seed, model in enumerate((*zoo, other)):
        aireprune.save(new_model(CONFIG, seed).eval(), folder / "zoo" / model.name)
    (folder / "zoo" / "image-s5" / "training.json").write_text(json.dumps(TRAINING))
    return folder / "zoo"
