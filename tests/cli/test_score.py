"""aire score: against the scores that the paper's code publishes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import small_models
from helpers import GOLDEN

import aireprune


def test_published_scores(aire, s5_file):
    published = np.load(GOLDEN / "bidir_bn_half_glu2.published_aire.npz")["scores"]
    code, out, _ = aire("score", s5_file, "--method", "aire-published", "--json")
    assert code == 0
    rows = json.loads(out)["states"]
    found = {(row["layer"], row["state"]): row["compared"] for row in rows}
    expected = {(f"params.encoder.layers_{i // 8}.seq", i % 8): float(s) for i, s in enumerate(published)}
    assert found == pytest.approx(expected, rel=1e-3)
    assert [row["rank"] for row in rows[:8]] == list(range(1, 9))


def test_the_best_states_of_each_layer(aire, s5_file):
    rows = json.loads(aire("score", s5_file, "--json")[1])["states"]
    best = json.loads(aire("score", s5_file, "--top", "2", "--json")[1])["states"]
    assert best == [row for row in rows if row["rank"] <= 2]
    _, out, _ = aire("score", s5_file, "--top", "2")
    assert len([line for line in out.splitlines() if "layers_" in line]) == 6


def test_angles_are_left_out_where_all_are_zero(aire, s5_file, tmp_path):
    aireprune.save(small_models.mamba(), tmp_path / "mamba")
    assert "arg λ" not in aire("score", tmp_path / "mamba")[1]
    assert "arg λ" in aire("score", s5_file)[1]


@pytest.mark.parametrize(
    ("model", "way"),
    [("zoo:smnist-mamba", "--method damage-calibrated"), ("zoo:smnist-s5", "--reduce balanced")],
)
def test_methods_that_need_data_are_sent_elsewhere(aire, model, way):
    code, _, err = aire("score", model, "--method", "damage-calibrated")
    assert code == 1
    assert f"With data: aire prune {model} -o OUT --ratio 0.5 {way} --calibrate INPUTS." in err
