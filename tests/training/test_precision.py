"""bfloat16: it trains with float32 weights, and is refused where it would crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from toys import CONFIG, brighter_half, program

from aireprune.errors import AireError
from aireprune.training.loop import train_model
from aireprune.training.recipes import Recipe


def test_bf16_autocast_trains(tmp_path):
    """In a process of its own, so that a crash would not end the tests."""
    command = [sys.executable, *program(tmp_path, "bf16")]
    done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "training.json").read_text())
    assert summary["recipe"]["precision"] == "bf16"
    weights = torch.load(tmp_path / "run" / "training.pt", weights_only=True)["model"]
    assert all(tensor.dtype == torch.float32 for name, tensor in weights.items() if name.endswith(("weight", "B")))


def test_bf16_that_would_crash_is_refused(tmp_path, monkeypatch):
    killed = subprocess.CompletedProcess([], -4)
    monkeypatch.setattr("aireprune.training.precision.subprocess.run", lambda *arguments, **options: killed)
    with pytest.raises(AireError, match="ONEDNN_MAX_CPU_ISA"):
        train_model(brighter_half(), CONFIG, Recipe(epochs=1, batch=20, precision="bf16"), tmp_path)
    assert not list(tmp_path.iterdir())
