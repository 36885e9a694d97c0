"""Arguments and help of the commands but `aire bench`; the work is done elsewhere, imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aireprune.cli import app
from aireprune.cli.options import Checkpoint, Config, Granularity, Horizon, Json, MethodName, Seed


@app.command()
def inspect(ckpt: Checkpoint, config: Config = None, json: Json = False) -> None:
    """What a checkpoint holds: family, layers, states, stability margin, energy share per layer."""
    from aireprune.cli import show

    show.inspect(ckpt, config, json)


@app.command()
def score(
    ckpt: Checkpoint,
    method: MethodName = "aire",
    horizon: Horizon = None,
    seed: Seed = 0,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=0, help="Show the N best states of each layer; 0: all.")
    ] = 0,
    granularity: Granularity = "mode",
    config: Config = None,
    json: Json = False,
) -> None:
    """The score of every state, best first in each layer."""
    from aireprune.cli import show

    show.score(ckpt, method, horizon, seed, top, granularity, config, json)


@app.command()
def methods(json: Json = False) -> None:
    """The pruning methods and what they are made of."""
    from aireprune.cli import show

    show.methods(json)


@app.command()
def tasks(json: Json = False) -> None:
    """The tasks to train and judge models on, and whether their data is here."""
    from aireprune.cli import show

    show.tasks(json)


@app.command()
def prune(
    ckpt: Checkpoint,
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", metavar="OUT", help="Where to write the pruned checkpoint; must not exist (see --overwrite)."
        ),
    ],
    ratio: Annotated[
        float | None, typer.Option("--ratio", "-r", metavar="P", help="Share of all states to remove, 0 to 1.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", metavar="T", help="Remove the states that score below T.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Apply this plan instead of making one.")
    ] = None,
    method: MethodName = "aire",
    reduce: Annotated[
        str,
        typer.Option(
            "--reduce",
            metavar="truncate|refit|balanced",
            help="What becomes of the states that stay: nothing (the paper), a readout that makes up for the others, "
            "or new states by balanced truncation (with method aire). S5, LRU and S4D.",
        ),
    ] = "truncate",
    calibrate: Annotated[
        str | None,
        typer.Option(
            "--calibrate",
            metavar="SOURCE",
            help="Unlabelled inputs to fit the reduced layers with: a task's name (its training split), a .npy or .npz "
            "file, or a directory of them. S5, S4D and Mamba in our own model classes.",
        ),
    ] = None,
    calibrate_count: Annotated[
        int, typer.Option("--calibrate-count", metavar="N", help="Use at most N calibration sequences.")
    ] = 256,
    max_drop: Annotated[
        float | None,
        typer.Option(
            "--max-drop",
            metavar="X",
            help="Find the largest ratio that costs at most X points of accuracy on the validation split of --task.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="TASK", help="Task of --max-drop; alone: report its test accuracy."),
    ] = None,
    mask: Annotated[
        bool, typer.Option("--mask", help="Silence the states instead of removing them: same shapes, same outputs.")
    ] = False,
    min_states: Annotated[
        int, typer.Option("--min-states", metavar="K", help="Keep at least K states in every layer.")
    ] = 1,
    epsilon: Annotated[
        float,
        typer.Option(
            "--epsilon", metavar="E", help="Added to the prefix sums; with --min-states 0 it lets whole layers go."
        ),
    ] = 0.0,
    horizon: Horizon = None,
    seed: Seed = 0,
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            metavar="adaptive|uniform|padded",
            help="Every layer its own size; one size for all; or chosen as adaptive and filled up with silent states "
            "to one size. Stock code that has one state size for all layers loads the last two.",
        ),
    ] = "adaptive",
    granularity: Granularity = "mode",
    round_to: Annotated[
        int, typer.Option("--round-to", metavar="K", help="Round the states kept per layer up to a multiple of K.")
    ] = 1,
    unstable: Annotated[
        str,
        typer.Option("--unstable", metavar="refuse|keep", help="Poles with |lambda| >= 1: stop, or always keep them."),
    ] = "refuse",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Remove the states that matter least and write a smaller checkpoint of the same kind.

    Give --ratio, --threshold, --plan, or --max-drop with --task. The original is never touched, and OUT appears whole
    or not at all. An OUT without a suffix makes a folder in our own format (config.json, model.safetensors, plan.json)
    from a single file.
    """
    from aireprune.cli.prune import prune as run

    run(
        ckpt, out, plan, mask, overwrite, config, json, max_drop, task, calibrate, calibrate_count,
        ratio=ratio, threshold=threshold, method=method, min_states=min_states, epsilon=epsilon,
        horizon=horizon, seed=seed, unstable=unstable, layout=layout, granularity=granularity, round_to=round_to,
        reduce=reduce,
    )  # fmt: skip


@app.command()
def certify(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A pruned checkpoint, with its plan.json.")],
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="CKPT", help="The original. Default: the one that plan.json names."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="SOURCE",
            help="Compare the outputs too (our S5 and S4D models): a task (its test split), digits (those embedded), "
            "or a .npy or .npz file or folder of inputs.",
        ),
    ] = None,
    examples: Annotated[int, typer.Option("--examples", metavar="N", help="At most so many inputs.")] = 256,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="JSON with what the original's file does not say.")
    ] = None,
    json: Json = False,
) -> None:
    """Prove what pruning did: bounds on the worst case beside the true norm, and exact energies, layer by layer.

    The exit status is 1 if any bound is below the truth. The energies are exact; the bounds hold for every input.
    """
    from aireprune.cli.certify import certify as run

    run(out, against, data, examples, config, json)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where to put the pruned models.")] = Path(
        "aire-demo"
    ),
    json: Json = False,
) -> None:
    """Prune the embedded digit classifier with every method and show accuracy, profile, size and speed.

    Needs no download and no training; less than a minute on two cores.
    """
    from aireprune.experiments.demo import run

    run(out, json)


@app.command()
def train(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="listops, text, retrieval, image, pathfinder, pathx, speech, smnist or lm."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder of the run; resumed if it exists.")],
    family: Annotated[
        str, typer.Option("--family", metavar="s5|s4d|mamba", help="What kind of model to train.")
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
    features: Annotated[int | None, typer.Option(help="Features h of every block (Mamba: d_model).")] = None,
    states: Annotated[
        int | None,
        typer.Option(help="State size n, both halves of each pair counted (S4D: per channel; Mamba: d_state)."),
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
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="cpu, cuda:1, ...; default: a GPU if any.")
    ] = None,
    json: Json = False,
) -> None:
    """Train a model on a task. Interrupt it at any time: the same command goes on where it stopped.

    On several GPUs: torchrun --nproc-per-node 4 -m aireprune train TASK -o DIR --recipe paper
    """
    from aireprune.cli.train import train as run
    from aireprune.training.recipes import ModelChanges, RecipeChanges

    model = ModelChanges(layers=layers, features=features, states=states, blocks=blocks, dropout=dropout)
    changes = RecipeChanges(
        epochs=epochs,
        batch=batch,
        lr=lr,
        ssm_lr=ssm_lr,
        weight_decay=weight_decay,
        precision=precision,
        seed=seed,
        examples=examples,
    )
    run(task, out, family, recipe, device, json, model, changes)


@app.command()
def sweep(
    ckpt: Checkpoint,
    task: Annotated[str, typer.Option("--task", metavar="TASK", help="What to judge the pruned models on.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder of the sweep; resumed if it exists.")],
    methods: Annotated[
        str, typer.Option("--methods", metavar="A,B,...", help="Pruning methods; `aire methods` lists them.")
    ] = "aire,last,lamp,global-hinf,uniform-hinf,global-magnitude,uniform-magnitude,random",
    reduce: Annotated[
        str, typer.Option("--reduce", metavar="A,B,...", help="Reductions: truncate, refit, balanced (with aire).")
    ] = "truncate",
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="Method aire also with calibrated readouts (our own models).")
    ] = False,
    calibrate: Annotated[
        str | None,
        typer.Option("--calibrate", metavar="SOURCE", help="Calibration inputs; default: the task's training split."),
    ] = None,
    ratios: Annotated[
        str, typer.Option("--ratios", metavar="FROM:TO:STEP", help="Or a list: 0.2,0.5,0.8.")
    ] = "0:0.9:0.1",
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="Seeds of method random: mean and deviation.")] = 3,
    examples: Annotated[
        int, typer.Option(metavar="N", min=0, help="At most N validation and N test examples; 0: all.")
    ] = 1000,
    max_drop: Annotated[
        float,
        typer.Option("--max-drop", metavar="X", min=0, help="What a safe ratio may cost on validation, in points."),
    ] = 1.0,
    config: Config = None,
    json: Json = False,
) -> None:
    """Prune with every method at every ratio, without retraining, and judge each model. Interrupt it at any time.

    Safe ratios are chosen on validation examples and reported on test examples, with 95 % intervals and a paired test
    against the full model.
    """
    from aireprune.cli.sweep import sweep as run

    run(
        ckpt, task, out, methods, reduce, ratios, calibrated or calibrate is not None, config, json,
        {"seeds": seeds, "examples": examples, "validation": examples, "calibrate": calibrate, "drop": max_drop},
    )  # fmt: skip


@app.command()
def reproduce(
    item: Annotated[
        str,
        typer.Argument(
            metavar="ITEM",
            help="table1, table2, table3, table5, curves, profiles, averages, ablations or all.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="DIR", help="Writes DIR/results.md and data in DIR/results; resumed.")
    ],
    recipe: Annotated[
        str, typer.Option("--recipe", metavar="mini|paper", help="Our small models, or models of the paper's size.")
    ] = "mini",
    zoo: Annotated[Path, typer.Option("--zoo", metavar="DIR", help="Trained models, in folders like image-s5.")] = Path(
        "zoo"
    ),
    models: Annotated[str, typer.Option("--models", metavar="A,B,...", help="Only these models.")] = "",
    page: Annotated[bool, typer.Option(help="Render the page, or only gather its data.")] = True,
) -> None:
    """Make the paper's tables and figures from trained models, with the paper's figures beside ours.

    Every cell is kept as data and done once: interrupt it at any time. With --no-page several of these can gather the
    data of different models at the same time.
    """
    from aireprune.cli.reproduce import reproduce as run

    run(item, recipe, zoo, out, models, page)
