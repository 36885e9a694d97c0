"""aire bench train: a training step of one S5 layer, or of a whole classifier of any family."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aireprune.cli.bench.cells import milliseconds, spread
from aireprune.cli.bench.options import Rounds
from aireprune.cli.options import Json
from aireprune.cli.output import print_json, say, table, waiting
from aireprune.errors import AireError

NAMES = {"s5": "an S5", "s4d": "an S4D", "mamba": "a Mamba", "mamba2": "a Mamba-2"}


def train(
    batch: Annotated[int, typer.Option(min=1, help="Sequences.")] = 8,
    length: Annotated[int, typer.Option(min=1, help="Steps.")] = 1024,
    features: Annotated[int, typer.Option(min=1, help="Features h.")] = 128,
    states: Annotated[int, typer.Option(min=1, help="State size n, both halves of each pair counted.")] = 128,
    layers: Annotated[
        int, typer.Option(min=0, help="A classifier of so many blocks instead of one layer, and JAX beside it.")
    ] = 0,
    family: Annotated[
        str, typer.Option(metavar="s5|s4d|mamba|mamba2", help="Of the classifier; features are d_model for Mamba.")
    ] = "s5",
    head_dim: Annotated[int, typer.Option(min=1, help="Channels of a head of Mamba-2.")] = 16,
    repeats: Rounds = 7,
    json: Json = False,
) -> None:
    """A training step of one S5 layer: ours, an eager associative scan, and s5-pytorch if it is installed.

    With --layers, of a whole classifier: ours, ours without the fused block, and the official model in JAX if that is
    installed. The digit model: --layers 4 --features 64 --states 64 --batch 32 --length 784.

    With --family, of a classifier of another family: S4D beside convolutions by FFT, Mamba beside mambapy if it is
    installed, Mamba-2 beside its parts and beside plain torch.
    """
    with waiting("measuring"):
        if family == "s5":
            result = _measured(batch, length, features, states, layers, repeats)
        else:
            size = {
                "batch": batch,
                "length": length,
                "h": features,
                "n": states,
                "layers": layers,
                "head_dim": head_dim,
            }
            result = _measured_family(family, size, repeats)
    if json:
        print_json(result)
        return
    what = f"{NAMES[family]} classifier of {layers} blocks" if layers else "a bidirectional S5 layer"
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


def _measured_family(family: str, size: dict[str, int], repeats: int) -> dict[str, Any]:
    if family not in NAMES:
        raise AireError(f"There is no family {family!r} to time a training step of; there are {', '.join(NAMES)}.")
    if not size["layers"]:
        raise AireError(
            f"A training step of {NAMES[family]} is timed for a classifier: say of how many layers (--layers 4)."
        )
    from aireprune.bench.train_families import Size, bench_train_family

    return bench_train_family(Size(family=family, **size), repeats)
