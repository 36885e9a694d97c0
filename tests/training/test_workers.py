"""Several processes train the model that one does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest
import torch
from toys import LAYER_NORM, brighter_half, program

from aireprune.errors import AireError
from aireprune.training.loop import train_model
from aireprune.training.recipes import Recipe
from aireprune.training.workers import Workers


def test_two_processes_train_the_model_that_one_does(tmp_path):
    alone = train_model(brighter_half(), LAYER_NORM, Recipe(epochs=1, batch=20), tmp_path / "alone")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, "--master-port", str(free_port()), *program(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    both = torch.load(tmp_path / "run" / "training.pt", weights_only=True)["model"]
    for name, weights in alone.state_dict().items():
        torch.testing.assert_close(both[name], weights, rtol=1e-4, atol=1e-6, msg=name)
    assert json.loads((tmp_path / "run" / "training.json").read_text())["history"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_batch_that_cannot_be_shared():
    with pytest.raises(AireError, match="cannot be shared by 3"):
        Workers(0, 3, torch.device("cpu")).share(20)
