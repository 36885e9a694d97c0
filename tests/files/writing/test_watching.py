"""Whoever wants to know hears of every byte that is copied."""

from __future__ import annotations

import os

import numpy as np
from safetensors.numpy import save_file

import aireprune
from aireprune.files.writing.copying import copy_range
from aireprune.files.writing.watching import watched


def test_bytes_are_told_within_the_context_alone(tmp_path):
    (tmp_path / "a").write_bytes(bytes(5000))
    told: list[int] = []
    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb") as target:
        with watched(told.append):
            copy_range(source.fileno(), target.fileno(), 0, 3000, 0, "a")
        copy_range(source.fileno(), target.fileno(), 3000, 2000, 3000, "a")
    assert sum(told) == 3000
    assert os.path.getsize(tmp_path / "b") == 5000


def test_most_of_a_checkpoint_is_heard_of(tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"A_log": (8, 4), "x_proj.weight": (10, 8), "dt_proj.weight": (8, 2), "dt_proj.bias": (8,)}
    tensors = {f"l.{name}": rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    save_file({**tensors, "head": np.ones(10_000, np.float32)}, tmp_path / "in.safetensors")
    told: list[int] = []
    with watched(told.append):
        aireprune.prune_file(tmp_path / "in.safetensors", tmp_path / "out.safetensors", ratio=0.5)
    assert 40_000 <= sum(told) <= os.path.getsize(tmp_path / "out.safetensors")
