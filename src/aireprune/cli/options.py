"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aireprune.cli import completing
from aireprune.cli.place import Place

Checkpoint = Annotated[
    Path,
    typer.Argument(
        parser=Place,
        metavar="CKPT",
        help="Checkpoint: a folder, a .msgpack, .safetensors, .pt, .pth, .ckpt, .bin or .npz file, zoo:NAME (`aire zoo`).",
        autocompletion=completing.checkpoints,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="JSON with what the file does not say. Default: NAME.json beside it."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="auto|ADDRESS",
        help="Spread the work over a Ray cluster: the one this machine belongs to, or the one at HOST:PORT (extra ray).",
    ),
]
MethodName = Annotated[
    str,
    typer.Option(
        "--method", "-m", help="Pruning method; `aire methods` lists them.", autocompletion=completing.methods
    ),
]
Horizon = Annotated[
    int | None,
    typer.Option(
        "--horizon",
        metavar="T",
        help="Count only the first T steps, in energies (method aire) and in Gramians.",
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

Calibrate = Annotated[
    str | None,
    typer.Option(
        "--calibrate",
        metavar="SOURCE",
        help="Unlabelled inputs to fit the reduced layers with: a text (read with the folder's own tokenizer, or as bytes), "
        "a task's name (its training split), a .npy or .npz file, or a directory of them.",
    ),
]
CalibrateCount = Annotated[
    int, typer.Option("--calibrate-count", metavar="N", help="Use at most N calibration sequences.")
]
CalibrateTokens = Annotated[
    int, typer.Option("--calibrate-tokens", metavar="N", help="Use at most N tokens of a text to calibrate with.")
]
Recover = Annotated[
    float | None,
    typer.Option(
        "--recover",
        metavar="MINUTES",
        help="Then let all of the pruned model learn from the full one for so long, without labels, on inputs of "
        "--calibrate. Interrupt it at any time: the same command goes on where it stopped.",
    ),
]
RecoverSteps = Annotated[
    int | None,
    typer.Option(
        "--recover-steps", metavar="N", help="The same in N steps, whatever time they take: results to be repeated."
    ),
]
RecoverCount = Annotated[
    int, typer.Option("--recover-count", metavar="N", help="Learn from at most N sequences (of a text: windows).")
]
LayerInputs = Annotated[
    Path | None,
    typer.Option(
        "--layer-inputs",
        metavar="DIR",
        help="Where no model can be built: a folder with the inputs (n, L, h) of every layer, NAME.npy, to fit them with.",
    ),
]
Module = Annotated[
    str | None,
    typer.Option(
        "--module",
        metavar="PATH.py:FUNCTION",
        help="Code of yours that returns the torch module whose weights CKPT holds. The file is run.",
    ),
]
