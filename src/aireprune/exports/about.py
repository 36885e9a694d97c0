"""What an exported file says about the model in it: family, states of every layer, and what was pruned."""

from __future__ import annotations

import json
from pathlib import Path

from aireprune.files.single import beside
from aireprune.pruning.plan import Plan
from aireprune.pruning.source import FileSource, ModuleSource
from aireprune.version import VERSION


def plan_of(source: FileSource | ModuleSource) -> Plan | None:
    """The plan by which the model was pruned, if it was."""
    if isinstance(source, ModuleSource):
        plan = getattr(source.module, "plan", None)
        return plan if isinstance(plan, Plan) else None
    path: Path = source.checkpoint.path
    saved = path / "plan.json" if path.is_dir() else beside(path, "plan.json")
    return Plan.load(saved) if saved.is_file() else None


def states_of(source: FileSource | ModuleSource) -> tuple[int, ...]:
    """Stored states (of Mamba-2: per group) of every layer."""
    return tuple(layer.states // (layer.groups if layer.family == "mamba2" else 1) for layer in source.layers)


def about(source: FileSource | ModuleSource) -> dict[str, str]:
    """Texts by name, for a file's metadata."""
    families = sorted({layer.family for layer in source.layers})
    told = {
        "aireprune.version": VERSION,
        "aireprune.family": ", ".join(families),
        "aireprune.states": json.dumps(
            {layer.name: n for layer, n in zip(source.layers, states_of(source), strict=True)}
        ),
    }
    plan = plan_of(source)
    if plan is not None:
        told["aireprune.pruned"] = repr(plan)
        told["aireprune.plan"] = json.dumps(
            {
                "method": plan.method,
                "reduce": plan.reduce,
                "layout": plan.layout,
                "ratio": plan.achieved_ratio,
                "layers": [
                    {"name": layer.name, "states": layer.counted, "kept": len(layer.kept)} for layer in plan.layers
                ],
            }
        )
    return told
