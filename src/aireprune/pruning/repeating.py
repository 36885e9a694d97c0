"""What to type to get a plan again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from aireprune.pruning.plan import Plan

DEFAULTS: Mapping[str, Any] = {
    "min_states": 1,
    "epsilon": 0.0,
    "horizon": None,
    "seed": 0,
    "granularity": "mode",
    "round_to": 1,
    "allocate": "scores",
    "target": None,
}


def prune_command(plan: Plan, source: str, target: str, mask: bool = False) -> str:
    """What makes the plan and applies it. Calibration inputs are not part of a plan, so they are left open."""
    options: dict[str, Any] = {"method": plan.method, "reduce": plan.reduce}
    options |= {"threshold": plan.threshold} if plan.by_threshold else {"ratio": plan.ratio}
    options["layout"] = plan.layout
    options |= {name: getattr(plan, name) for name, default in DEFAULTS.items() if getattr(plan, name) != default}
    options |= {"state_axis": list(plan.state_axes)} if plan.state_axes else {}
    options |= {"mask": True} if mask else {}
    if plan.calibrated:
        options |= {"calibrate": "SOURCE", "calibrate_count": plan.calibrated}
    if plan.recovered:
        options["recover_steps"] = plan.recovered
    return command(["prune", source, "-o", target], options)


def command(words: Sequence[str], options: Mapping[str, Any]) -> str:
    """What a person types: aire, the words, and the options as flags; True is a flag alone, a list repeats it."""
    typed = ["aire", *words]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list) else [value]:
            typed += [flag] if one is True else [flag, f"{one!r}" if isinstance(one, float) else str(one)]
    return shlex.join(typed)
