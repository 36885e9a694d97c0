"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Checkpoint = Annotated[
    Path,
    typer.Argument(
        metavar="CKPT", help="Checkpoint: a folder, or a .msgpack, .safetensors, .pt, .pth, .ckpt or .bin file."
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="JSON with what the file does not say. Default: NAME.json beside it."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
MethodName = Annotated[str, typer.Option("--method", "-m", help="Pruning method; `aire methods` lists them.")]
Horizon = Annotated[
    int | None,
    typer.Option(
        "--horizon", metavar="T", help="Count only the first T steps, in energies (method aire) and in Gramians."
    ),
]
Granularity = Annotated[
    str,
    typer.Option(
        "--granularity",
        metavar="mode|state",
        help="S4D: every channel chooses its own modes, or one index goes from all channels.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="S", help="Seed of method random.")]
StateAxis = Annotated[
    list[str] | None,
    typer.Option(
        "--state-axis",
        metavar="NAME=AXIS",
        help="Of a customised layer: which axis of a tensor lies along the states, or none; may be repeated.",
    ),
]
