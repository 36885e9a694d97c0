"""aire eval: how good a model is, alone or beside the full model that it was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aireprune.cli.judge import TaskName, TextFile, judging, show_evaluation
from aireprune.cli.options import Checkpoint, Config, Json
from aireprune.cli.output import next_step, notices, print_json


def eval(
    ckpt: Checkpoint,
    task: TaskName = None,
    text: TextFile = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="FULL",
            help="The full model: both scores side by side, the share of equal answers, and KL(FULL || CKPT).",
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            "--window", metavar="L", help="Tokens of a window of --text. Default: 1024, or what the text has."
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", help="Use the first N test examples, or windows of --text. Default: all."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="N", help="Examples at a time. Default: by their size.")
    ] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Judge a model on the test split of a task or on a text: accuracy, or bits per byte and perplexity.

    Everything that can be loaded can be judged, Hugging Face folders included. The intervals are 95 %.
    """
    from aireprune.experiments.evaluation import Candidate, judge
    from aireprune.tasks.material import Material

    material = Material(task=task, text=text, window=window, count=count)
    with judging(str(ckpt)) as report:
        found = judge(Candidate(model=ckpt, against=against, config=config), material, batch, report)
    notices(found.notices)
    if json:
        print_json({"model": str(ckpt), "full": None if against is None else str(against), **found.to_dict()})
        return
    show_evaluation(found, str(ckpt), "full")
    if against is None:
        on = f"--task {task}" if text is None else f"--text {text}"
        next_step(f"aire prune {ckpt} -o OUT --max-drop 1 {on}, then: aire eval OUT --against {ckpt} {on}")
    else:
        next_step(f"aire report {ckpt} --against {against} -o report.html")
