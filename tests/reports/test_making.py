"""The commands of a page make the same again."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import aireprune
from aireprune import embedded
from aireprune.pruning.plan import Plan
from aireprune.reports.making import made, prune_command, sweep_command


@pytest.mark.parametrize(
    "choices",
    [
        {"method": "aire", "reduce": "truncate", "ratio": 0.5},
        {"method": "aire", "reduce": "balanced", "ratio": 0.333},
        {"method": "last", "threshold": 1e-05, "min_states": 3, "epsilon": 1e-8, "reduce": "truncate"},
        {"method": "random", "ratio": 0.4, "seed": 7, "round_to": 8, "layout": "uniform", "reduce": "truncate"},
        {"method": "aire", "ratio": 0.6, "horizon": 100, "reduce": "refit"},
    ],
)
def test_what_it_says_makes_the_same_plan(choices, aire, tmp_path):
    plan = aireprune.plan(embedded.MODEL, **{"layout": "adaptive", **choices})
    target = tmp_path / "with a space" / "out"
    words = shlex.split(prune_command(plan, str(embedded.MODEL), str(target)))
    assert words[0] == "aire"
    code, _, err = aire(*words[1:])
    assert code == 0, err
    assert replace(Plan.load(target / "plan.json"), certificate=None) == plan


def test_what_it_says_makes_the_same_sweep(swept, aire, tmp_path):
    told = json.loads((swept / "sweep.json").read_text())
    words = shlex.split(sweep_command(told, tmp_path / "again"))
    assert words[:3] == ["aire", "sweep", told["source"]]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert given["--methods"] == "aire,random"
    assert given["--reduce"] == "truncate,balanced"
    assert (given["--ratios"], given["--seeds"], given["--max-drop"]) == ("0,0.25,0.5", "2", "5.0")
    code, _, err = aire(*words[1:], "--help")
    assert code == 0, err


def test_versions_settings_and_fingerprints(pruned):
    plan = Plan.load(pruned / "plan.json")
    facts = dict(made(["aire report x"], plan, {"original": "somewhere"}).facts)
    assert facts["fingerprint of the original"] == plan.fingerprint
    assert (facts["original"], facts["budget"], facts["seed"]) == ("somewhere", "ratio 0.5", "0")
    assert f"aireprune {aireprune.__version__}" in facts["versions"]
    assert "numpy" in facts["versions"]


def test_calibration_is_left_open(pruned):
    plan = replace(Plan.load(pruned / "plan.json"), calibrated=64, state_axes=("a=0", "b=1"))
    line = prune_command(plan, "x y", str(Path("out")))
    assert line.startswith("aire prune 'x y' -o out --method aire")
    assert line.endswith("--state-axis a=0 --state-axis b=1 --calibrate SOURCE --calibrate-count 64")
