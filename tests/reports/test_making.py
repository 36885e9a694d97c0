"""The commands of a page make the same again."""

from __future__ import annotations

import json
import shlex

import aireprune
from aireprune.pruning.plan import Plan
from aireprune.reports.making import made, sweep_command


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
