"""The command that a plan is told with makes the same plan."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import aireprune
from aireprune import embedded
from aireprune.pruning.plan import Plan
from aireprune.pruning.repeating import prune_command


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
def test_what_it_says_makes_the_same_plan(choices: dict[str, Any], aire: Any, tmp_path: Path) -> None:
    plan = aireprune.plan(embedded.MODEL, **{"layout": "adaptive", **choices})
    target = tmp_path / "with a space" / "out"
    words = shlex.split(prune_command(plan, str(embedded.MODEL), str(target)))
    assert words[0] == "aire"
    code, _, err = aire(*words[1:])
    assert code == 0, err
    assert Plan.load(target / "plan.json") == plan


def test_inputs_are_left_open() -> None:
    plan = aireprune.plan(embedded.MODEL, ratio=0.5, reduce="truncate")
    plan = replace(plan, calibrated=64, recovered=100, allocate="measured", state_axes=("a=0", "b=1"))
    line = prune_command(plan, "x y", "out")
    assert line.startswith("aire prune 'x y' -o out --method aire")
    assert line.endswith(
        "--allocate measured --state-axis a=0 --state-axis b=1 --calibrate SOURCE --calibrate-count 64 --recover-steps 100"
    )


def test_a_mask_is_told(aire: Any, tmp_path: Path) -> None:
    plan = aireprune.plan(embedded.MODEL, ratio=0.5, reduce="truncate")
    words = shlex.split(prune_command(plan, str(embedded.MODEL), str(tmp_path / "out"), mask=True))
    code, out, err = aire(*words[1:])
    assert code == 0, err
    assert "masked" in out
