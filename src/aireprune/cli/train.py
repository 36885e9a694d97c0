"""aire train: a progress bar around `aireprune.training.loop.train_model`, and the trained model beside it."""

from __future__ import annotations

import json as jsonlib
import os
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from aireprune.api import save
from aireprune.cli.output import console, measured, print_json, stderr
from aireprune.tasks import load_task
from aireprune.training import recipes
from aireprune.training.loop import Conditions, train_model
from aireprune.training.loop import Progress as Step
from aireprune.training.recipes import ModelChanges, RecipeChanges


def train(
    name: str,
    out: Path,
    family: str,
    recipe: str,
    device: str | None,
    json: bool,
    model: ModelChanges,
    changes: RecipeChanges,
) -> None:
    recipes.check_name(recipe)
    base = recipes.base_task(name)
    task = load_task(recipes.task_name(base, recipe) if name == base else name)
    config = recipes.model_config(task, family, recipe, model)
    how = recipes.training_recipe(base, family, recipe, changes)
    first = int(os.environ.get("RANK", "0")) == 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, disable=not first) as bar:
        job = bar.add_task(task.name)

        def show(step: Step) -> None:
            bar.update(job, completed=step.step, total=step.steps, description=f"{task.name} loss {step.loss:.3f}")
            if step.validation is not None:
                bar.console.print(f"epoch {step.epoch + 1}: validation {measured(task.metric, step.validation)}")

        trained = train_model(task, config, how, out, Conditions(device=device), show)
    if not first:
        return
    save(trained, out / "model", overwrite=True)
    summary = jsonlib.loads((out / "training.json").read_text())
    (out / "model" / "training.json").write_text((out / "training.json").read_text())
    if json:
        print_json({**summary, "model": str(out / "model")})
    else:
        result = measured(task.metric, summary["test"])
        console.print(f"test {result} after {summary['seconds']:.0f} s: {out / 'model'}")
