"""aire prune --dry-run: the plan that would be made, and nothing else."""

from __future__ import annotations

import json

import numpy as np
import small_models

import aireprune


def test_it_shows_the_plan_and_writes_nothing(aire, s5_file, tmp_path):
    out = tmp_path / "out.msgpack"
    code, shown, err = aire("prune", s5_file, "-o", out, "--ratio", 0.5, "--dry-run")
    assert code == 0, err
    assert "balanced: kept states per layer" in shown
    assert shown.endswith(f"Nothing was written. Without --dry-run this writes {out}.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    plan = json.loads(aire("prune", s5_file, "-o", out, "--ratio", 0.5, "--dry-run", "--json")[1])["plan"]
    written = aireprune.prune_file(s5_file, out, ratio=0.5)
    assert [layer["kept"] for layer in plan["layers"]] == [list(layer.kept) for layer in written.layers]
    assert plan["certificate"] == json.loads(json.dumps(written.certificate))


def test_it_says_what_harm_is_to_be_expected(aire, s5_file, tmp_path):
    out = tmp_path / "out.msgpack"
    arguments = ("prune", s5_file, "-o", out, "--method", "aire", "--ratio", 0.9)
    planned, done = (aire(*arguments, *more)[1] for more in (("--dry-run",), ()))
    assert "expected error" in planned
    warnings = [[line for line in shown.splitlines() if "likely to do damage" in line] for shown in (planned, done)]
    assert warnings[0] == warnings[1] != []


def test_what_would_be_measured_is_left_out_and_said(aire, s5_file, tmp_path):
    arguments = ("--ratio", 0.5, "--calibrate", "no-such-file.npy", "--recover", 1)
    code, _, err = aire("prune", s5_file, "-o", tmp_path / "out.msgpack", "--dry-run", *arguments)
    assert code == 0
    assert "note: planned without --calibrate, which may decide otherwise." in err
    assert "note: planned without --recover, which may decide otherwise." in err


def test_what_does_not_go_with_it(refused, s5_file):
    refused(s5_file, "--dry-run measures nothing", "--max-drop", 1, "--task", "digits", "--dry-run")


def test_a_way_that_was_named_is_not_called_the_best(aire, s5_file, tmp_path):
    shown = [
        aire("prune", s5_file, "-o", tmp_path / "out.msgpack", "--ratio", 0.5, "--dry-run", *named)[1]
        for named in ((), ("--method", "last"), ("--method", "last", "--reduce", "refit"))
    ]
    assert ["the best way" in text or "the way" in text for text in shown] == [True, False, False]


REFITTED = {"method": "random", "ratio": 0.5, "reduce": "refit", "seed": 4}


def test_what_inputs_may_change_is_not_refused(aire, tmp_path):
    """Without inputs such a plan is refused; with --calibrate the damage is measured instead."""
    aireprune.save(small_models.lopsided_s5(), tmp_path / "full")
    np.save(tmp_path / "inputs.npy", small_models.inputs())
    arguments = ["prune", tmp_path / "full", "-o", tmp_path / "out"]
    arguments += [word for name, value in REFITTED.items() for word in (f"--{name}", value)]
    code, _, err = aire(*arguments, "--dry-run")
    assert code == 1
    assert "is refused" in err
    calibrated = (*arguments, "--calibrate", tmp_path / "inputs.npy")
    code, _, err = aire(*calibrated, "--dry-run")
    assert code == 0, err
    assert "note: without inputs this plan would be refused: layer layers." in err
    assert aire(*calibrated)[0] == 0
