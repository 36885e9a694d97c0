"""aire bench model: checkpoints, or the paper's sizes."""

from __future__ import annotations

import json

import pytest
import toy_experiments

import aireprune

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # s5-pytorch uses it


@pytest.fixture
def checkpoints(tmp_path):
    model, _ = toy_experiments.classification()
    aireprune.save(model, tmp_path / "dense")
    aireprune.save(aireprune.prune(model, ratio=0.5), tmp_path / "pruned")
    return tmp_path / "dense", tmp_path / "pruned"


def test_checkpoints_side_by_side(aire, checkpoints):
    few = ("--length", 16, "--repeats", 1)
    code, out, err = aire("bench", "model", *checkpoints, *few, "--no-memory")
    assert code == 0, err
    assert "times faster" in out
    assert "peak memory" not in out
    document = json.loads(aire("bench", "model", checkpoints[0], *few, "--no-memory", "--json")[1])
    assert list(document["models"]) == ["dense"]
    code, out, _ = aire("bench", "model", checkpoints[1], *few)
    assert "peak memory" in out
    assert "times faster" not in out


@pytest.mark.usefixtures("tiny")
def test_the_papers_sizes(aire):
    few = ("--suite", "lra", "--task", "text", "--repeats", 1, "--other-repeats", 1, "--batch", 2)
    code, out, _ = aire("bench", "model", *few)
    assert code == 0
    assert next(line for line in out.splitlines() if line.startswith("text")).split()[1:3] == ["80", "%"]


def test_something_must_be_given(aire):
    code, _, err = aire("bench", "model")
    assert code == 2
    assert "give checkpoints, or --suite lra." in err
