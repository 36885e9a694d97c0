"""aire reproduce: the paper's tables and figures on our models, as data, pictures and one page."""

from __future__ import annotations

from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from aireprune.cli.output import console, stderr
from aireprune.errors import AireError
from aireprune.experiments.paper.page import render
from aireprune.experiments.paper.run import reproduce as run
from aireprune.experiments.paper.run import time_models, wanted_entries, wanted_items
from aireprune.training.hyperparameters import NAMES


def reproduce(item: str, recipe: str, zoo: Path, out: Path, only: str, page: bool) -> None:
    if recipe not in NAMES:
        raise AireError(f"There is no recipe {recipe!r}. Recipes: {', '.join(NAMES)}.")
    items = wanted_items(item)
    entries = wanted_entries(items, recipe, tuple(filter(None, only.split(","))))
    for entry in entries:
        entry.path(zoo, recipe)  # say what is missing before hours of work
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True) as bar:
        job = bar.add_task("loading")

        def report(what: str, done: int, total: int) -> None:
            bar.update(job, description=what, completed=done, total=total)

        run(items, entries, recipe, zoo, out / "results", report)
        if page:
            time_models(items, entries, recipe, zoo, out / "results", report)
    if page:
        written = render(items, entries, recipe, zoo, out)
        console.print(f"Wrote {written} and the data and figures in {out / 'results'}")
    else:
        console.print(f"Wrote the data in {out / 'results'}")
