"""The options of `aire prune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aireprune.cli import completing
from aireprune.cli.place import Place

Out = Annotated[
    Path,
    typer.Option(
        "-o",
        "--out",
        parser=Place,
        metavar="OUT",
        help="Where to write the pruned checkpoint; must not exist (see --overwrite).",
    ),
]
Ratio = Annotated[
    float | None, typer.Option("--ratio", "-r", metavar="P", help="Share of all states to remove, 0 to 1.")
]
Threshold = Annotated[
    float | None, typer.Option("--threshold", metavar="T", help="Remove the states that score below T.")
]
PlanFile = Annotated[Path | None, typer.Option("--plan", metavar="FILE", help="Apply this plan instead of making one.")]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        help="Pruning method; `aire methods` lists them. auto: aire, or damage-calibrated for states of Mamba with "
        "--calibrate.",
        autocompletion=completing.methods,
    ),
]
Reduce = Annotated[
    str,
    typer.Option(
        "--reduce",
        metavar="auto|truncate|refit|balanced|projected|fitted",
        help="What becomes of the states that stay: nothing (the paper), a readout that makes up for the others, or new "
        "states by balanced truncation (with method aire); the last two for S5, LRU, S4D and S4. For Mamba-2 with "
        "--calibrate: new states by projection, in a folder that only aireprune.load reads, or fitted rows of B and C, in "
        "the stock layout. auto: balanced wherever it applies, fitted for Mamba-2 with --calibrate; another --method or "
        "--mask implies truncate.",
    ),
]
MaxDrop = Annotated[
    float | None,
    typer.Option(
        "--max-drop",
        metavar="X",
        help="Find the largest ratio that costs at most X points of accuracy on the validation split of --task; of a "
        "language task or --text (its first half), at most X per cent more bits.",
    ),
]
Mask = Annotated[
    bool, typer.Option("--mask", help="Silence the states instead of removing them: same shapes, same outputs.")
]
MinStates = Annotated[int, typer.Option("--min-states", metavar="K", help="Keep at least K states in every layer.")]
Epsilon = Annotated[
    float,
    typer.Option(
        "--epsilon", metavar="E", help="Added to the prefix sums; with --min-states 0 it lets whole layers go."
    ),
]
Layout = Annotated[
    str,
    typer.Option(
        "--layout",
        metavar="auto|adaptive|uniform|padded",
        help="Every layer its own size; one size for all; or chosen as adaptive and filled up with silent states to one "
        "size. auto: adaptive for linear layers in our own format, else uniform, which stock code loads with one number "
        "changed.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="ENGINE",
        help="Layout and sizes that this engine loads, or the reason why there are none; `aire targets` lists them.",
        autocompletion=completing.targets,
    ),
]
Allocate = Annotated[
    str,
    typer.Option(
        "--allocate",
        metavar="scores|measured",
        help="What decides how many states each layer keeps: their scores, or how far the model's answers on inputs of "
        "--calibrate move when a layer has fewer.",
    ),
]
RoundTo = Annotated[
    int, typer.Option("--round-to", metavar="K", help="Round the states kept per layer up to a multiple of K.")
]
Unstable = Annotated[
    str,
    typer.Option("--unstable", metavar="refuse|keep", help="Poles with |lambda| >= 1: stop, or always keep them."),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Write a layer that lost nearly everything although it keeps many states."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Keep the finished shards of a large folder when this is interrupted, and go on with those that are kept.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would stay and stop: nothing is measured, nothing is written.")
]
Bench = Annotated[
    bool, typer.Option("--bench", help="Time the full and the pruned model side by side, on random inputs.")
]
Details = Annotated[
    bool,
    typer.Option("--details", help="Also show the share of energy that every layer keeps and its exact H2 error."),
]
