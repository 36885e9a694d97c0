"""aire sweep merge: the parts of a sweep, done on several machines, become one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aireprune.cli.options import Json
from aireprune.cli.output import next_step, notices


def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Parts, or folders that hold parts.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="DIR", help="Folder of the whole sweep. Default: the one that holds the parts."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Join the parts that aire sweep --part made, and show the whole sweep.

    Nothing may be missing or there twice, and all parts have to be of the same model, task, options and version.
    """
    from aireprune.cli.sweep import show
    from aireprune.experiments.merging import find_parts
    from aireprune.experiments.merging import merge as join
    from aireprune.reports.present import present_sweep

    target = out or find_parts(folders)[0].parent
    summary = join(folders, target)
    notices(present_sweep(target))
    show(summary, target, json)
    if not json:
        next_step(f"aire prune CKPT -o OUT --max-drop {summary.drop:g} --task {summary.task}")
