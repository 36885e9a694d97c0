"""aire certify as a user meets it: what it prints, and what it says about the files that are there."""

from __future__ import annotations

import json

import numpy as np
import pytest
import toy_experiments
from safetensors.numpy import load_file, save_file

import aireprune
from aireprune import embedded
from aireprune.models.create import new_model


@pytest.mark.parametrize("reduce", ["truncate", "refit", "balanced"])
def test_a_pruned_file(aire, s5_file, tmp_path, reduce):
    target = tmp_path / "small.msgpack"
    assert aire("prune", s5_file, "-o", target, "--ratio", 0.5, "--reduce", reduce)[0] == 0
    plan = json.loads((tmp_path / "small.plan.json").read_text())
    code, out, _ = aire("certify", target)
    assert code == 0
    assert "Every bound is at or above the truth." in out
    assert "give --data" in out
    d_input = json.loads(s5_file.with_suffix(".json").read_text())["d_input"]
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((5, 40, d_input)).astype(np.float32))
    code, out, _ = aire("certify", target, "--against", s5_file, "--data", tmp_path / "x.npy", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["violations"] == []
    assert document["end_to_end"]["examples"] == 5
    assert document["end_to_end"]["bound"] > document["end_to_end"]["distortion"]
    for now, then in zip(document["layers"], plan["certificate"], strict=True):
        assert now["relative_h2"] == pytest.approx(then["relative_h2"], rel=1e-3)
        assert now["hinf"] <= now["bound"]
        assert (now["balanced_bound"] is not None) == (reduce == "balanced")
    s5_file.rename(tmp_path / "moved.msgpack")
    code, _, err = aire("certify", target)
    assert code == 1
    assert "which is not there. Give the original checkpoint with --against" in err


def test_the_embedded_model(aire, tmp_path):
    code, _, _ = aire("prune", embedded.MODEL, "-o", tmp_path / "out", "--ratio", 0.5, "--reduce", "balanced")
    assert code == 0
    code, out, _ = aire("certify", tmp_path / "out", "--data", "digits", "--examples", 20)
    assert code == 0
    assert "End to end, 20 inputs" in out
    weights = tmp_path / "out" / "model.safetensors"
    tensors = load_file(weights)
    tensors["layers.0.seq.C1"] *= 3  # the certificate is about what is in the file
    save_file(tensors, weights)
    document = json.loads(aire("certify", tmp_path / "out", "--json")[1])
    assert document["layers"][0]["relative_h2"] > 1
    assert document["violations"] == []


def test_a_bound_below_the_truth_is_an_error(aire, tmp_path, monkeypatch):
    monkeypatch.setattr("aireprune.certificates.audit.violated", lambda layer: ["LAST"])
    aireprune.save(toy_experiments.classification()[0], tmp_path / "model")
    aire("prune", tmp_path / "model", "-o", tmp_path / "out", "--ratio", 0.5)
    code, out, err = aire("certify", tmp_path / "out")
    assert code == 1
    assert "aire: bounds below the truth: layers.0.seq: LAST bound" in err
    assert "Every bound" not in out


def test_errors(aire, tmp_path):
    model, _ = toy_experiments.classification()
    aireprune.save(model, tmp_path / "model")
    aireprune.save(new_model(model.config, 2), tmp_path / "other")
    aire("prune", tmp_path / "model", "-o", tmp_path / "out", "--ratio", 0.5)
    code, _, err = aire("certify", tmp_path / "out", "--against", tmp_path / "other")
    assert code == 1
    assert "The plan was made from another checkpoint" in err
    np.save(tmp_path / "x.npy", np.zeros((3, 20, 5), np.float32))
    code, _, err = aire("certify", tmp_path / "out", "--data", tmp_path / "x.npy")
    assert code == 1
    assert "The inputs have 5 values per step, but the model takes 1." in err
    np.save(tmp_path / "x.npy", np.full((3, 20), 7))
    code, _, err = aire("certify", tmp_path / "out", "--data", tmp_path / "x.npy")
    assert code == 1
    assert "The inputs hold token 7, but the model knows only 1." in err
    code, _, err = aire("certify", tmp_path / "model")
    assert code == 1
    assert "has no plan (plan.json)" in err


def test_a_model_of_the_zoo_was_not_pruned(aire):
    code, _, err = aire("certify", "zoo:smnist-s5")
    assert code == 1
    assert "is not known to be pruned" in err
