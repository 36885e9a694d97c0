"""What `aire prune` shows when it is done, and what it does not show unasked."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import small_models
import torch

import aireprune
from aireprune.cli.pruned import damage
from aireprune.pruning.outcome import Outcome


def shown(aire: Any, *arguments: Any) -> list[str]:
    """The lines that the command prints, with single spaces."""
    code, out, err = aire("prune", *arguments)
    assert code == 0, err
    return [" ".join(line.split()) for line in out.splitlines()]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("s5", "Balanced truncation, the best way without data for s5 layers; the paper's way is --method aire "),
        ("mamba", "Plain removal of states, by method aire: the way without data for mamba layers."),
    ],
)
def test_the_way_is_said_where_it_was_left_open(aire: Any, tmp_path: Any, name: str, way: str) -> None:
    aireprune.save(small_models.MODELS[name](), tmp_path / "in")
    assert shown(aire, tmp_path / "in", "-o", tmp_path / "out", "--ratio", 0.5)[0].startswith(way)
    named = shown(aire, tmp_path / "in", "-o", tmp_path / "named", "--ratio", 0.5, "--reduce", "truncate")
    assert named[0] == "aire: kept states per layer"
    plan = shown(aire, tmp_path / "in", "-o", tmp_path / "again", "--plan", tmp_path / "out" / "plan.json")
    assert plan[0].endswith("kept states per layer")


def test_energies_and_h2_errors_are_details(aire: Any, tmp_path: Any) -> None:
    aireprune.save(small_models.s5(), tmp_path / "in")
    head = "layer states kept removed expected error"
    lines = shown(aire, tmp_path / "in", "-o", tmp_path / "a", "--ratio", 0.5, "--reduce", "truncate")
    assert head in lines
    lines = shown(aire, tmp_path / "in", "-o", tmp_path / "b", "--ratio", 0.5, "--reduce", "truncate", "--details")
    assert f"{head} energy kept H2 error" in lines
    lines = shown(aire, tmp_path / "in", "-o", tmp_path / "c", "--ratio", 0.5, "--details")
    assert f"{head} Hankel kept H2 error" in lines


def test_json_holds_everything(aire: Any, tmp_path: Any) -> None:
    aireprune.save(small_models.s5(), tmp_path / "in")
    document = json.loads(aire("prune", tmp_path / "in", "-o", tmp_path / "out", "--ratio", 0.5, "--json")[1])
    layers = [layer["name"] for layer in document["plan"]["layers"]]
    assert list(document["outcome"]["expected"]) == layers
    assert document["plan"]["certificate"][0]["slow_error"] == document["outcome"]["expected"][layers[0]]
    assert document["state_bytes_per_sequence"] == [
        2 * 8 * 2 * 4,
        8 * 2 * 4,
    ]  # layers, pairs, complex, single precision
    assert 0 < document["state_share_of_parameters"] < 1 < document["expected_speedup"]


def test_the_sizes_are_those_of_the_files(aire: Any, tmp_path: Any) -> None:
    aireprune.save(small_models.s5(), tmp_path / "in")
    lines = shown(aire, tmp_path / "in", "-o", tmp_path / "out", "--ratio", 0.5)
    assert "full pruned saved" in lines
    assert "states 16 8 50.0 %" in lines
    counts = [sum(p.numel() for p in aireprune.load(tmp_path / name).parameters()) for name in ("in", "out")]
    assert f"parameters {counts[0]:,} {counts[1]:,} {1 - counts[1] / counts[0]:.1%}".replace("%", " %") in lines


def test_a_file_that_stays_large_is_said_to(aire: Any, tmp_path: Any) -> None:
    state = {**small_models.mamba().state_dict(), "embedding.weight": torch.zeros(400, 100)}
    torch.save({"model": state, "optimizer": {"state": torch.zeros(100000)}}, tmp_path / "in.pth")
    lines = shown(aire, tmp_path / "in.pth", "-o", tmp_path / "out.pth", "--ratio", 0.5)
    (worth,) = [line for line in lines if line.startswith("States are ")]
    assert float(worth.split()[2]) < 5
    (weights,) = [line for line in lines if line.startswith("weights ")]
    assert float(weights.split()[-2]) < 5  # the optimiser's state, which is not copied, is not counted as saved


def test_damage_is_one_line_with_a_way_out() -> None:
    model = small_models.s4d()
    plan = aireprune.prune(model, ratio=0.9, reduce="truncate", layout="uniform").plan
    outcome = Outcome.of(plan)
    assert outcome.error is not None
    said = damage(plan, outcome)
    assert said == (
        f"This is likely to do damage (expected error {100 * outcome.error:.1f} %): try --calibrate INPUTS, "
        "--reduce balanced, --layout adaptive, or a smaller --ratio."
    )
    assert damage(plan, Outcome(expected=outcome.expected, limit=math.inf)) is None
    measured = Outcome(expected=outcome.expected, limit=0.3, agreement=0.5)
    assert str(damage(plan, measured)).startswith("Only 50.0 % of the answers are those of the full model: try ")


def test_calibrated_models_show_what_was_measured(aire: Any, tmp_path: Any) -> None:
    aireprune.save(small_models.s5(), tmp_path / "in")
    np.save(tmp_path / "x.npy", small_models.inputs(24))
    options = ("--ratio", 0.5, "--calibrate", tmp_path / "x.npy", "--reduce", "balanced")
    lines = shown(aire, tmp_path / "in", "-o", tmp_path / "out", *options)
    assert "layer states kept removed output error" in lines
    (said,) = [line for line in lines if line.startswith("Readouts were calibrated with 24")]
    assert " of the answers are the same, KL " in said


def test_projections_show_what_was_predicted_beside_what_was_measured(aire: Any, tmp_path: Any) -> None:
    aireprune.save(small_models.mamba2(), tmp_path / "in")
    np.save(tmp_path / "x.npy", small_models.inputs(24))
    options = ("--ratio", 0.75, "--calibrate", tmp_path / "x.npy", "--reduce", "projected")
    lines = shown(aire, tmp_path / "in", "-o", tmp_path / "out", *options)
    assert "layer states kept removed predicted error measured error output error" in lines
    plan = aireprune.Plan.load(tmp_path / "out" / "plan.json")
    for layer in plan.layers:
        errors = (layer.predicted_error, layer.measured_error)
        (row,) = [line for line in lines if line.startswith(layer.name)]
        assert " ".join(f"{100 * float(error):.1f} %" for error in errors if error is not None) in row
    assert not any(line.startswith("States that others") for line in lines)


def test_mamba2_says_what_was_done_and_what_would_do_less_harm(aire: Any, tmp_path: Any) -> None:
    aireprune.save(small_models.mamba2(), tmp_path / "in")
    np.save(tmp_path / "x.npy", small_models.inputs(24))
    lines = shown(aire, tmp_path / "in", "-o", tmp_path / "out", "--ratio", 0.75, "--calibrate", tmp_path / "x.npy")
    assert lines[0].startswith("States that others can stand in for are removed, and the rows that make B and C fitted")
    plan = aireprune.Plan.load(tmp_path / "out" / "plan.json")
    outcome = Outcome(expected={}, limit=0.3, agreement=0.5)
    assert str(damage(plan, outcome)).endswith("try --reduce projected, --recover MINUTES, or a smaller --ratio.")


def test_a_layer_that_is_left_with_one_state_is_said(aire: Any, tmp_path: Any) -> None:
    aireprune.save(small_models.s5(), tmp_path / "in")
    lines = shown(aire, tmp_path / "in", "-o", tmp_path / "one", "--ratio", 0.99)
    assert sum(line.startswith("Only one state stays in ") for line in lines) == 1
    lines = shown(aire, tmp_path / "in", "-o", tmp_path / "two", "--ratio", 0.99, "--min-states", 2)
    assert not any(line.startswith("Only one state") for line in lines)
