"""aire train, with little data."""

from __future__ import annotations

import json

import numpy as np
import pytest
from json_schema import check

import aireprune
from aireprune.tasks import load_task
from aireprune.tasks.evaluate import evaluate

SMALL = ("--layers", 1, "--features", 8, "--states", 8, "--blocks", 1, "--epochs", 2, "--batch", 20, "--device", "cpu")


@pytest.fixture
def digits(tmp_path, monkeypatch):
    """120 pictures of noise in the place of MNIST."""
    rng = np.random.default_rng(0)
    shapes = {"xtr": (100, 28, 28), "xte": (20, 28, 28)}
    arrays = {name: rng.integers(0, 256, shape).astype(np.uint8) for name, shape in shapes.items()}
    labels = {"ytr": np.arange(100) % 10, "yte": np.arange(20) % 10}
    np.savez(tmp_path / "mnist.npz", **arrays, **labels)
    monkeypatch.setenv("AIRE_DATA", str(tmp_path))


@pytest.mark.usefixtures("digits")
def test_a_run_and_its_model(aire, tmp_path):
    code, out, err = aire("train", "smnist", "-o", tmp_path / "run", *SMALL)
    assert code == 0, err
    assert "epoch 2: validation accuracy" in err
    assert out.startswith("test accuracy ")
    story = json.loads((tmp_path / "run" / "training.json").read_text())
    assert (story["recipe"]["epochs"], story["recipe"]["batch"], story["config"]["h"]) == (2, 20, 8)
    assert (tmp_path / "run" / "model" / "training.json").read_text() == json.dumps(story, indent=1) + "\n"
    code, out, _ = aire("train", "smnist", "-o", tmp_path / "run", *SMALL, "--json")
    assert json.loads(out) == {"schema": 1, **story, "model": str(tmp_path / "run" / "model")}
    check("train", json.loads(out))
    task = load_task("smnist")
    assert evaluate(aireprune.load(tmp_path / "run" / "model"), task, task.test) == story["test"]


@pytest.mark.usefixtures("digits")
def test_bad_arguments(aire, tmp_path):
    for arguments, mention in (
        (("smnist", "--recipe", "large"), "There is no recipe 'large'. Recipes: mini, paper."),
        (("smnist", "--family", "gru"), "There is no model family 'gru'"),
        (("chess",), "There is no recipe for 'chess'"),
        (("smnist", *SMALL, "--lr", "nan"), "--lr nan"),
        (("smnist", *SMALL, "--lr", "1e30"), "try a smaller learning rate (--lr, --ssm-lr)"),
        (("smnist", *SMALL, "--batch", 1000), "larger than the 92 training examples"),
    ):
        code, _, err = aire("train", *arguments, "-o", tmp_path / "run")
        assert code == 1
        assert mention in err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("epochs", 0),
        ("batch", 0),
        ("lr", -1),
        ("ssm-lr", 0),
        ("layers", 0),
        ("states", -2),
        ("dropout", 1),
        ("seed", -1),
    ],
)
def test_what_cannot_be_trained_is_said_before_a_folder_is_made(aire, tmp_path, option, value):
    code, _, err = aire("train", "listops", "-o", tmp_path / "run", f"--{option}", value)
    assert code == 1
    assert err.startswith(f"aire: --{option} {value} is not possible: ")
    assert not (tmp_path / "run").exists()
