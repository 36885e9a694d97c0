"""aire explore: one HTML file in which a plan can be tried out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aireprune.cli.options import Checkpoint, Config, Granularity, Horizon, Json, Seed, StateAxis
from aireprune.cli.output import waiting
from aireprune.cli.report import in_flags_too, tell


def explore(
    ckpt: Checkpoint,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="The page. Default: explore.html in the folder or beside the file."
        ),
    ] = None,
    ratio: Annotated[float, typer.Option("--ratio", "-r", metavar="P", help="Where the page starts.")] = 0.5,
    horizon: Horizon = None,
    seed: Seed = 0,
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            metavar="adaptive|uniform|padded",
            help="Every layer its own size; one size for all; or filled up with silent states to one size.",
        ),
    ] = "adaptive",
    granularity: Granularity = "mode",
    unstable: Annotated[
        str,
        typer.Option("--unstable", metavar="refuse|keep", help="Poles with |lambda| >= 1: stop, or always keep them."),
    ] = "refuse",
    state_axis: StateAxis = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Write one HTML file with controls: move the ratio or threshold, change the method, and see what every layer keeps.

    The page decides exactly as `aire prune` does. It offers the command to type and the plan.json to save.
    """
    from aireprune.families import StateAxes
    from aireprune.pruning.source import open_file
    from aireprune.reports.explorer import Exploration, exploration_document
    from aireprune.reports.page import write_page
    from aireprune.reports.place import page_path

    wanted = Exploration(
        ratio=ratio,
        horizon=horizon,
        seed=seed,
        unstable=unstable,
        layout=layout,
        granularity=granularity,
        state_axes=StateAxes.parse(state_axis or ()),
    )
    with waiting(f"looking at {ckpt}"):
        document = in_flags_too(exploration_document(open_file(ckpt, config, wanted.request().units), wanted))
        path = out or page_path(ckpt, "explore.html")
        write_page(document, path)
    tell(document, path, json, f"aire prune {ckpt} -o OUT --plan plan.json, with the plan that the page saves")
