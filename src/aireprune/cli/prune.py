"""aire prune: a checkpoint in, a smaller one out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aireprune.api import prune_file
from aireprune.cli.output import console, notices, percent, print_json, stderr, table
from aireprune.errors import AireError
from aireprune.files import open_checkpoint
from aireprune.planning import Plan


def prune(
    source: Path,
    target: Path,
    plan_file: Path | None,
    mask: bool,
    overwrite: bool,
    config: Path | None,
    json: bool,
    **options: Any,
) -> None:
    if plan_file is not None:
        if options["ratio"] is not None or options["threshold"] is not None:
            raise AireError("A plan already says what to keep: give --plan, or --ratio or --threshold.")
        given = Plan.load(plan_file)
        if options["reduce"] not in ("truncate", given.reduce):
            raise AireError(f"The plan was made for --reduce {given.reduce}; make a new one for {options['reduce']}.")
        plan: Plan | None = given
        options = {}
    else:
        plan = None
    checkpoint = open_checkpoint(source, config)
    with stderr.status(f"pruning {source} ({size_of(source) / 1e6:.0f} MB)"):
        applied = prune_file(checkpoint, target, plan, mask=mask, overwrite=overwrite, **options)
    before, after = size_of(source), size_of(target)
    notices(checkpoint.notices)
    notices(f"{layer['name']}: {note}" for layer in applied.certificate or () for note in layer["notes"])
    if json:
        document = {"source": str(source), "target": str(target), "masked": mask, "bytes": [before, after]}
        print_json({**document, "plan": applied.to_dict()})
        return
    console.print(profile(applied))
    action = "silenced" if mask else "removed"
    console.print(
        f"{applied.states - applied.kept} of {applied.states} states {action} "
        f"({percent(applied.achieved_ratio)}), {before / 1e6:.2f} MB -> {after / 1e6:.2f} MB: {target}"
    )


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


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
