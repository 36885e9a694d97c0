"""aire train: a progress bar around `aireprune.train.train`, and the trained model beside it."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from aireprune.api import save
from aireprune.cli.output import console, percent, print_json, stderr
from aireprune.nn.s5_config import S5Config
from aireprune.tasks import load_task
from aireprune.train import Progress as Step
from aireprune.train import Recipe, train_model


def train(task_name: str, out: Path, json: bool, model: dict[str, Any], recipe: dict[str, Any]) -> None:
    task = load_task(task_name)
    config = S5Config(d_input=task.d_input, d_output=task.classes, bidirectional=True, C_init="lecun_normal", **model)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr) as bar:
        job = bar.add_task(task_name)

        def show(step: Step) -> None:
            bar.update(job, completed=step.step, total=step.steps, description=f"{task_name} loss {step.loss:.3f}")
            if step.validation is not None:
                bar.console.print(f"epoch {step.epoch + 1}: validation accuracy {percent(step.validation, 2)}")

        trained = train_model(task, config, Recipe(**recipe), out, show)
    save(trained, out / "model", overwrite=True)
    summary = jsonlib.loads((out / "training.json").read_text())
    if json:
        print_json({**summary, "model": str(out / "model")})
    else:
        console.print(f"test accuracy {percent(summary['test'], 2)} after {summary['seconds']:.0f} s: {out / 'model'}")
