"""aire demo: what pruning does to the embedded digit classifier."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aireprune.cli.options import Json
from aireprune.cli.output import next_step, percent, print_json, progress, say, table
from aireprune.cli.pruned import profile

if TYPE_CHECKING:
    from aireprune.experiments.demo import Demo


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where to put the pruned models.")] = Path(
        "aire-demo"
    ),
    examples: Annotated[
        int | None,
        typer.Option("--examples", metavar="N", min=1, help="Judge on the first N digits; default: all 1,000."),
    ] = None,
    json: Json = False,
) -> None:
    """Prune the embedded digit classifier with every method and show accuracy, profile, size and speed.

    Needs no download and no training; less than a minute on two cores.
    """
    from aireprune.experiments.demo import run_demo

    with progress("the full model") as step:
        found = run_demo(out, step, examples)
    if json:
        print_json(found.to_dict())
    else:
        _show(found)


def _show(found: Demo) -> None:
    from aireprune.experiments.demo import SHOWN_RATIO, TIMED_BATCH
    from aireprune.pruning.outcome import Outcome

    say(
        f"A bidirectional S5 with {found.plan.states} states (conjugate pairs) in {len(found.plan.layers)} layers reads "
        f"digits pixel by pixel (784 steps).\nAccuracy of the full model on the {found.examples} embedded test digits: "
        f"{percent(found.full_accuracy)}. No retraining below.\n"
    )
    say(
        table(
            "Accuracy (%) against the share of states removed",
            ("method", *(f"{ratio:.0%}" for ratio in found.ratios)),
            ((name, *(f"{100 * value:.1f}" for value in curve)) for name, curve in found.accuracy.items()),
        )
    )
    say()
    say(profile(found.plan, Outcome.of(found.plan)))
    say()
    say(
        table(
            f"{SHOWN_RATIO:.0%} of the states gone; time of {TIMED_BATCH} digits, the models taking turns",
            ("model", "accuracy", "parameters", "weights", "time", "speedup"),
            (
                (
                    row.model,
                    percent(row.accuracy),
                    f"{row.parameters:,}",
                    f"{row.bytes / 1e3:.0f} kB",
                    f"{row.milliseconds:.0f} ms",
                    f"{row.speedup:.2f}x",
                )
                for row in found.models
            ),
        )
    )
    names = ", ".join(f"{found.folder}/{row.model}" for row in found.models)
    say(f"\nFiles: {names} (model, config and plan) and {found.folder}/results.json")
    say(f"Done in {found.seconds:.0f} s.")
    next_step("aire prune CKPT -o OUT --ratio 0.5, with a checkpoint of yours", f"aire report {found.folder}/balanced")
