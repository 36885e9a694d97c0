"""aire bench scaling: how the time of one S5 layer grows."""

from __future__ import annotations

from typing import Annotated

import typer

from aireprune.cli.bench.cells import milliseconds, spread
from aireprune.cli.bench.options import Rounds
from aireprune.cli.options import Json
from aireprune.cli.output import print_json, say, table, waiting


def scaling(
    task: Annotated[str, typer.Option(metavar="NAME", help="LRA size that is scaled.")] = "pathfinder",
    batch: Annotated[int, typer.Option(min=4, help="Sequences.")] = 8,
    repeats: Rounds = 9,
    json: Json = False,
) -> None:
    """Time of one S5 layer over a factor of 16 in length, batch and states."""
    from aireprune.bench.lra import chosen
    from aireprune.bench.s5 import bench_scaling

    size = chosen([task])[task]
    with waiting("measuring"):
        result = bench_scaling(size, batch, repeats)
    if json:
        print_json({"task": task, "batch": batch, **result})
        return
    rows = [
        (what, label, milliseconds(seconds), spread(found["per unit"][label]))
        for what, found in result.items()
        for label, seconds in found["seconds"].items()
    ]
    title = f"One S5 layer of size {task}, batch {batch}: time per step, sequence or state, relative to the smallest"
    say(table(title, ("of", "number", "time", "per unit"), rows, left=2))
