"""How to get the same again: commands, versions and fingerprints."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from aireprune.pruning.plan import Plan
from aireprune.pruning.repeating import command
from aireprune.reports.document import Making

LIBRARIES = ("aireprune", "numpy", "torch", "safetensors")
SETTINGS = (
    "method",
    "reduce",
    "min_states",
    "epsilon",
    "horizon",
    "seed",
    "layout",
    "granularity",
    "round_to",
    "target",
)


def made(commands: Sequence[str], plan: Plan | None = None, facts: Mapping[str, str] | None = None) -> Making:
    """commands: what to type, in order. plan: its settings and fingerprint are listed. facts: what else there is to say."""
    found = dict(facts or {})
    if plan is not None:
        found |= {name.replace("_", " "): str(getattr(plan, name)) for name in SETTINGS}
        found["budget"] = f"threshold {plan.threshold:g}" if plan.by_threshold else f"ratio {plan.ratio:g}"
        found["fingerprint of the original"] = plan.fingerprint
        if plan.calibrated:
            found["calibrated on"] = f"{plan.calibrated} unlabelled sequences"
    found["versions"] = ", ".join([f"Python {platform.python_version()}", *_versions()])
    found["machine"] = f"{platform.system()} {platform.machine()}"
    found["written"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Making(commands=tuple(commands), facts=tuple(found.items()))


def sweep_command(swept: Mapping[str, Any], folder: Path) -> str:
    """What did a sweep, from its sweep.json."""
    variants = swept["variants"]
    options = {
        "task": swept["task"],
        "methods": ",".join(dict.fromkeys(variant["method"] for variant in variants)),
        "reduce": ",".join(dict.fromkeys(variant["reduce"] for variant in variants)),
        "ratios": ",".join(f"{ratio:g}" for ratio in swept["ratios"]),
        "seeds": swept["seeds"],
        "examples": swept["examples"],
        "max_drop": swept["drop"],
    }
    options |= {"calibrated": True} if any(variant["calibrated"] for variant in variants) else {}
    options |= {"calibrate": swept["calibrate"]} if swept.get("calibrate") else {}
    return command(["sweep", str(swept.get("source") or "CKPT"), "-o", str(folder)], options)


def _versions() -> list[str]:
    found = []
    for library in LIBRARIES:
        try:
            found.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            continue
    return found
