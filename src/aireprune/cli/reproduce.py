"""aire reproduce: the paper's tables and figures on our models, as data, pictures and one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aireprune.cli.ending import resumable
from aireprune.cli.options import Ray
from aireprune.cli.output import progress, say
from aireprune.errors import AireError
from aireprune.zoo import FOLDER

if TYPE_CHECKING:
    from aireprune.experiments.paper.reproduction import Reproduction
    from aireprune.experiments.rivals.comparisons import Comparison


def reproduce(
    item: Annotated[
        str,
        typer.Argument(
            metavar="ITEM",
            help="table1, table2, table3, table5, curves, profiles, averages, ablations, seeds, all of these; or rivals.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="Writes DIR/results.md, or DIR/rivals.md, and data in DIR/results; resumed.",
        ),
    ],
    recipe: Annotated[
        str, typer.Option("--recipe", metavar="mini|paper", help="Our small models, or models of the paper's size.")
    ] = "mini",
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME=CKPT",
            help="A checkpoint of your own in the place of ours, such as listops=run/model or listops-s4d=run/model; may "
            "be repeated. Only these are pruned, unless --models names others. For rivals: s5, s5-hankel, lru or mamba2.",
        ),
    ] = None,
    models: Annotated[str, typer.Option("--models", metavar="A,B,...", help="Only these models.")] = "",
    ray: Ray = None,
    zoo: Annotated[
        Path, typer.Option("--zoo", metavar="DIR", help="Trained models, in folders like image-s5.")
    ] = FOLDER,
    page: Annotated[bool, typer.Option(help="Render the page, or only gather its data.")] = True,
    examples: Annotated[int, typer.Option(min=0, help="Of rivals: test digits; 0: all.")] = 2000,
    recover_steps: Annotated[
        int, typer.Option("--recover-steps", min=0, help="Of rivals: steps of recovery; 0: no such rows.")
    ] = 1000,
) -> None:
    """Make the paper's tables and figures from trained models, with the paper's figures beside ours; or, as `rivals`, a
    page about methods that change training.

    Every cell is kept as data and done once: interrupt it at any time. With --no-page several of these can gather the
    data of different models at the same time. Judging the nine mini models takes about 35 minutes of one core, 1 to 9
    per model; the calibrated variants and timing come on top. A model of the paper's size takes days on a CPU.
    """
    if item == "rivals":
        from aireprune.experiments.rivals.comparisons import chosen

        _rivals(out, chosen(model or (), filter(None, models.split(","))), examples, recover_steps, page)
        return
    from aireprune.experiments.on_ray import runner
    from aireprune.experiments.paper.page import render
    from aireprune.experiments.paper.reproduction import plan_reproduction
    from aireprune.experiments.paper.run import gather
    from aireprune.experiments.paper.speed import time_models

    wanted = plan_reproduction(item, recipe, zoo, out, tuple(filter(None, models.split(","))), model or ())
    _check_models(wanted)
    run = runner(ray)
    with progress("loading") as step, resumable():
        gather(wanted, step, run)
        if page:
            time_models(wanted, step)
    if page:
        say(f"Wrote {render(wanted)} and the data and figures in {wanted.data}")
    else:
        say(f"Wrote the data in {wanted.data}")


def _rivals(
    out: Path, found: Sequence[tuple[Comparison, Sequence[str]]], examples: int, recover_steps: int, page: bool
) -> None:
    """The comparisons that are wanted, one after the other, and the page about them."""
    from aireprune.experiments.rivals.page import render
    from aireprune.experiments.rivals.run import Effort, folder_of, gather

    effort = Effort(examples=examples, recover_steps=recover_steps)
    data = out / "results" / "rivals"
    with progress("loading") as step, resumable():
        for comparison, paths in found:
            for number, path in enumerate(paths):
                gather(comparison, path, folder_of(data, comparison, number), effort, step)
    if page:
        say(f"Wrote {render(data, out / 'rivals.md', found, effort)}")
    else:
        say(f"Wrote the data in {data}")


def _check_models(wanted: Reproduction) -> None:
    """Say what is missing, and how to get it, before hours of work."""
    for model in wanted.every:
        if wanted.find(model) is None:
            raise AireError(
                f"There is no model {wanted.zoo / model.name}. Train it with: aire train {model.base} --family "
                f"{model.family} --recipe {wanted.recipe} --seed {model.seed} -o RUN, then move RUN/model there."
            )
