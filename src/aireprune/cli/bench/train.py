"""aire bench train: a training step of one S5 layer."""

from __future__ import annotations

from typing import Annotated

import typer

from aireprune.cli.bench.cells import milliseconds, spread
from aireprune.cli.bench.options import Rounds
from aireprune.cli.options import Json
from aireprune.cli.output import print_json, say, table, waiting


def train(
    batch: Annotated[int, typer.Option(min=1, help="Sequences.")] = 8,
    length: Annotated[int, typer.Option(min=1, help="Steps.")] = 1024,
    features: Annotated[int, typer.Option(min=1, help="Features h.")] = 128,
    states: Annotated[int, typer.Option(min=1, help="State size n, both halves of each pair counted.")] = 128,
    repeats: Rounds = 7,
    json: Json = False,
) -> None:
    """A training step of one S5 layer: ours, an eager associative scan, and s5-pytorch if it is installed."""
    from aireprune.bench.train import bench_train

    with waiting("measuring"):
        result = bench_train(batch, length, features, states, repeats)
    if json:
        print_json(result)
        return
    title = f"Training step of a bidirectional S5 layer, batch {batch}, length {length}, h {features}, n {states}"
    rows = (
        (name, milliseconds(seconds, 0), spread(result["ratio"][name])) for name, seconds in result["seconds"].items()
    )
    say(table(title, ("implementation", "time", "times ours"), rows))
