"""aire bench train: a training step of one S5 layer, or of a whole classifier."""

from __future__ import annotations

from typing import Annotated, Any

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
    layers: Annotated[
        int, typer.Option(min=0, help="A classifier of so many blocks instead of one layer, and JAX beside it.")
    ] = 0,
    repeats: Rounds = 7,
    json: Json = False,
) -> None:
    """A training step of one S5 layer: ours, an eager associative scan, and s5-pytorch if it is installed.

    With --layers, of a whole classifier: ours, ours without the fused block, and the official model in JAX if that is
    installed. The digit model: --layers 4 --features 64 --states 64 --batch 32 --length 784.
    """
    with waiting("measuring"):
        result = _measured(batch, length, features, states, layers, repeats)
    if json:
        print_json(result)
        return
    what = f"an S5 classifier of {layers} blocks" if layers else "a bidirectional S5 layer"
    title = f"Training step of {what}, batch {batch}, length {length}, h {features}, n {states}"
    rows = (
        (name, milliseconds(seconds, 0), spread(result["ratio"][name])) for name, seconds in result["seconds"].items()
    )
    say(table(title, ("implementation", "time", "times ours"), rows))


def _measured(batch: int, length: int, h: int, n: int, layers: int, repeats: int) -> dict[str, Any]:
    """Of a classifier with so many layers, or of one layer alone."""
    if not layers:
        from aireprune.bench.train import bench_train

        return bench_train(batch, length, h, n, repeats)
    from aireprune.bench.train_model import bench_train_model
    from aireprune.models.s5_config import S5Config

    config = S5Config(
        d_input=1, d_output=10, h=h, n=n, layers=layers, bidirectional=True, C_init="lecun_normal", dropout=0.1
    )
    return bench_train_model(config, batch, length, repeats)
