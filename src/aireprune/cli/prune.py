"""aire prune: a checkpoint in, a smaller one out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aireprune.api import prune_file
from aireprune.cli.output import console, notices, percent, print_json, stderr, table
from aireprune.errors import AireError
from aireprune.files import open_checkpoint
from aireprune.pruning.plan import Plan

PLAN_DEFAULTS = {  # what `aire prune` takes for options that are not given; those not named here are None
    "method": "aire",
    "min_states": 1,
    "epsilon": 0.0,
    "seed": 0,
    "unstable": "refuse",
    "layout": "adaptive",
    "granularity": "mode",
    "round_to": 1,
    "reduce": "truncate",
}


def prune(
    source: Path,
    target: Path,
    plan_file: Path | None,
    mask: bool,
    overwrite: bool,
    config: Path | None,
    json: bool,
    max_drop: float | None = None,
    task: str | None = None,
    calibrate: str | None = None,
    calibrate_count: int = 256,
    **options: Any,
) -> None:
    data: dict[str, Any] = {} if calibrate is None else {"calibrate": calibrate, "calibrate_count": calibrate_count}
    judged: dict[str, Any] = {}
    if max_drop is not None:
        from aireprune.cli.judge import find_ratio

        if plan_file is not None:
            raise AireError("--max-drop makes a plan of its own: give it without --plan.")
        judged = find_ratio(source, config, task, max_drop, mask=mask, **data, **options)
        options["ratio"] = judged["ratio"]
    if plan_file is not None:
        set_too = [name for name, value in options.items() if value != PLAN_DEFAULTS.get(name)]
        if set_too:
            raise AireError(
                f"The plan already decides on {', '.join(sorted(set_too)).replace('_', '-')}: give --plan alone, or make "
                "a new plan."
            )
        plan: Plan | None = Plan.load(plan_file)
        options = {}
    else:
        plan = None
    checkpoint = open_checkpoint(source, config)
    with stderr.status(f"pruning {source} ({size_of(source) / 1e6:.0f} MB)"):
        applied = prune_file(checkpoint, target, plan, mask=mask, overwrite=overwrite, **data, **options)
    before, after = size_of(source), size_of(target)
    if task is not None:
        from aireprune.cli.judge import judge

        judged |= judge(target, config, task)
    notices(checkpoint.notices)
    notices(f"{layer['name']}: {note}" for layer in applied.certificate or () for note in layer["notes"])
    if json:
        document = {"source": str(source), "target": str(target), "masked": mask, "bytes": [before, after]}
        print_json({**document, **({"accuracy": judged} if judged else {}), "plan": applied.to_dict()})
        return
    console.print(profile(applied))
    action = "silenced" if mask else "removed"
    console.print(
        f"{applied.states - applied.kept} of {applied.states} states {action} "
        f"({percent(applied.achieved_ratio)}), {_size(before)} -> {_size(after)}: {target}"
    )
    if applied.calibrated:
        console.print(f"Readouts were calibrated with {applied.calibrated} unlabelled sequences.")
    if judged:
        from aireprune.cli.judge import show

        show(judged)


def profile(plan: Plan) -> Any:
    """The per-layer table of a plan; H2 error is the exact one of the layer, relative to its H2 norm."""
    errors = {layer["name"]: percent(layer["relative_h2"], 2) for layer in plan.certificate or ()}
    return table(
        f"{plan.method if plan.reduce == 'truncate' else plan.reduce}: kept states per layer",
        ("layer", "states", "kept", "removed", "energy kept", *["H2 error"] * bool(errors)),
        (
            (
                layer.name,
                layer.states,
                len(layer.kept),
                percent(layer.ratio),
                percent(layer.energy_kept, 2),
                *[errors.get(layer.name, "–")] * bool(errors),
            )
            for layer in plan.layers
        ),
    )


def _size(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
