"""aire train: a model on a task, and the trained model beside the run."""

from __future__ import annotations

import json as jsonlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aireprune.cli.ending import resumable
from aireprune.cli.options import Json
from aireprune.cli.output import measured, next_step, print_json, progress, progress_line, say

if TYPE_CHECKING:
    from torch import nn

    from aireprune.models.create import AnyConfig
    from aireprune.tasks import Task
    from aireprune.training.recipes import Recipe


def train(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="listops, text, retrieval, image, pathfinder, pathx, speech, smnist or lm."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder of the run; resumed if it exists.")],
    family: Annotated[
        str, typer.Option("--family", metavar="s5|s4d|lru|mamba|mamba2", help="What kind of model to train.")
    ] = "s5",
    recipe: Annotated[
        str,
        typer.Option(
            "--recipe",
            metavar="mini|paper",
            help="Small model and data for two CPU cores, or the paper's hyperparameters. The options below change it.",
        ),
    ] = "mini",
    layers: Annotated[int | None, typer.Option(help="Number of blocks.")] = None,
    features: Annotated[int | None, typer.Option(help="Features h of every block (Mamba, Mamba-2: d_model).")] = None,
    states: Annotated[
        int | None,
        typer.Option(
            help="State size n, both halves of each pair counted (S4D: per channel; Mamba, Mamba-2: d_state)."
        ),
    ] = None,
    blocks: Annotated[int | None, typer.Option(help="S5: HiPPO blocks at initialisation.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Dropout.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training data.")] = None,
    batch: Annotated[int | None, typer.Option(help="Batch size, over all processes.")] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    ssm_lr: Annotated[
        float | None, typer.Option("--ssm-lr", help="Peak learning rate of state space parameters and norms.")
    ] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Weight decay of the other parameters.")] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="float32|bf16", help="bf16: autocast; weights and scans stay float32.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Seed of weights, order and dropout.")] = None,
    examples: Annotated[
        int | None, typer.Option(metavar="N", help="Use only the first N training examples; 0: all.")
    ] = None,
    hankel: Annotated[
        float | None,
        typer.Option(metavar="W", help="S5, LRU: add W times the sum of all Hankel singular values to the loss."),
    ] = None,
    augment: Annotated[
        bool,
        typer.Option(
            "--augment",
            help="Vary the examples: pictures moved and mirrored, clips moved, stretched, louder or "
            "softer, arguments of ListOps in another order.",
        ),
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Begin with the weights of this model folder, of the same sizes."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="cpu, cuda:1, ...; default: a GPU if any.")
    ] = None,
    json: Json = False,
) -> None:
    """Train a model on a task. Interrupt it at any time: the same command goes on where it stopped.

    On several GPUs: torchrun --nproc-per-node 4 -m aireprune train TASK -o DIR --recipe paper
    """
    from aireprune.tasks import load_task
    from aireprune.training import recipes

    recipes.check_name(recipe)
    base = recipes.base_task(task)
    loaded = load_task(recipes.task_name(base, recipe) if task == base else task)
    model_changes = recipes.ModelChanges(
        layers=layers, features=features, states=states, blocks=blocks, dropout=dropout
    )
    recipe_changes = recipes.RecipeChanges(
        epochs=epochs,
        batch=batch,
        lr=lr,
        ssm_lr=ssm_lr,
        weight_decay=weight_decay,
        precision=precision,
        seed=seed,
        examples=examples,
        hankel=hankel,
        augment=augment,
        start=start,
    )
    config = recipes.model_config(loaded, family, recipe, model_changes)
    trained = _train(loaded, config, recipes.training_recipe(base, family, recipe, recipe_changes), out, device)
    if _first():
        _finish(trained, loaded, out, json)


def _first() -> bool:
    """Of the processes that torchrun started, the one that reports and writes."""
    return int(os.environ.get("RANK", "0")) == 0


def _train(task: Task, config: AnyConfig, recipe: Recipe, out: Path, device: str | None) -> nn.Module:
    """Train with a bar that shows the loss, and a line for every epoch."""
    from aireprune.training.loop import Conditions, Progress, train_model

    with progress(task.name, transient=False, disable=not _first()) as step:

        def show(now: Progress) -> None:
            step(f"{task.name} loss {now.loss:.3f}", now.step, now.steps)
            if now.validation is not None:
                progress_line(f"epoch {now.epoch + 1}: validation {measured(task.metric, now.validation)}")

        with resumable():
            return train_model(task, config, recipe, out, Conditions(device=device), show)


def _finish(trained: nn.Module, task: Task, out: Path, json: bool) -> None:
    """Save the model with the story of its training, and say how good it is."""
    from aireprune.api import save

    save(trained, out / "model", overwrite=True)
    story = (out / "training.json").read_text()
    (out / "model" / "training.json").write_text(story)
    summary = jsonlib.loads(story)
    if json:
        print_json({**summary, "model": str(out / "model")})
    else:
        model = out / "model"
        say(f"test {measured(task.metric, summary['test'])} after {summary['seconds']:.0f} s: {model}")
        next_step(f"aire prune {model} -o OUT --max-drop 1 --task {task.name} --calibrate {task.name}")
