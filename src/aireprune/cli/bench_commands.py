"""Arguments and help of `aire bench`; the work is done elsewhere and imported only when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aireprune.cli import app
from aireprune.cli.options import Config, Json

Suite = Annotated[str, typer.Option("--suite", metavar="lra", help="The six Long Range Arena sizes of the paper.")]
Tasks = Annotated[list[str] | None, typer.Option("--task", metavar="NAME", help="Only this size; may be repeated.")]
OtherRounds = Annotated[int, typer.Option("--other-repeats", min=1, help="Rounds against s5-pytorch, which is slow.")]
Rounds = Annotated[int, typer.Option("--repeats", min=1, help="Rounds in which everything compared takes turns.")]

bench = typer.Typer(help="Measurements on this machine, as ratios within one run.", no_args_is_help=True)
app.add_typer(bench, name="bench")


@bench.command("checkpoint")
def bench_checkpoint(
    folder: Annotated[
        Path,
        typer.Option("--dir", metavar="DIR", help="Where to make the checkpoint and its copies (needs 3x its size)."),
    ] = Path("aire-bench"),
    layers: Annotated[int, typer.Option(min=1, help="Layers; 64 make a Mamba-2.8B-shaped checkpoint of 5.5 GB.")] = 64,
    repeats: Annotated[int, typer.Option(min=1, help="Pairs of cp and prune.")] = 5,
    ratio: Annotated[float, typer.Option(help="Share of states to remove.")] = 0.5,
    json: Json = False,
) -> None:
    """Prune a sharded fp16 Mamba checkpoint of random weights, side by side with `cp`: time and peak memory."""
    from aireprune.cli.bench import checkpoint

    checkpoint(folder, layers, repeats, ratio, json)


@bench.command("train")
def bench_train(
    batch: Annotated[int, typer.Option(min=1, help="Sequences.")] = 8,
    length: Annotated[int, typer.Option(min=1, help="Steps.")] = 1024,
    features: Annotated[int, typer.Option(min=1, help="Features h.")] = 128,
    states: Annotated[int, typer.Option(min=1, help="State size n, both halves of each pair counted.")] = 128,
    repeats: Rounds = 7,
    json: Json = False,
) -> None:
    """A training step of one S5 layer: ours, an eager associative scan, and s5-pytorch if it is installed."""
    from aireprune.cli.bench import train

    train(batch, length, features, states, repeats, json)


@bench.command("layer")
def bench_layer(
    suite: Suite = "lra",
    tasks: Tasks = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences.")] = 8,
    repeats: Rounds = 9,
    other_repeats: OtherRounds = 3,
    json: Json = False,
) -> None:
    """One S5 layer per size: its matrix products alone, ours, s5-pytorch if installed; dense, masked and removed."""
    from aireprune.cli.bench import layer, only_lra

    only_lra(suite)
    layer(tasks or [], batch, repeats, other_repeats, json)


@bench.command("model")
def bench_model(
    checkpoints: Annotated[
        list[Path] | None, typer.Argument(metavar="DENSE [PRUNED]...", help="Checkpoints to run side by side.")
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            "--suite", metavar="lra", help="Instead of checkpoints: six-layer S5 models at the paper's sizes."
        ),
    ] = None,
    tasks: Tasks = None,
    config: Config = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences for throughput.")] = 8,
    length: Annotated[int, typer.Option(min=8, help="Steps or tokens, for checkpoints.")] = 1024,
    repeats: Rounds = 9,
    other_repeats: OtherRounds = 3,
    memory: Annotated[bool, typer.Option(help="Peak memory of each model, in a process of its own.")] = True,
    json: Json = False,
) -> None:
    """Latency, throughput, parameters, bytes, states and peak memory; prefill and decoding for language models."""
    from aireprune.cli.bench import model, models, only_lra

    if suite is not None:
        only_lra(suite)
        models(tasks or [], batch, repeats, other_repeats, json)
        return
    if not checkpoints:
        raise typer.BadParameter("give checkpoints, or --suite lra.")
    model(checkpoints, config, batch, length, repeats, memory, json)


@bench.command("scaling")
def bench_scaling(
    task: Annotated[str, typer.Option(metavar="NAME", help="LRA size that is scaled.")] = "pathfinder",
    batch: Annotated[int, typer.Option(min=4, help="Sequences.")] = 8,
    repeats: Rounds = 9,
    json: Json = False,
) -> None:
    """Time of one S5 layer over a factor of 16 in length, batch and states."""
    from aireprune.cli.bench import scaling

    scaling(task, batch, repeats, json)


@bench.command("mamba")
def bench_mamba(
    batch: Annotated[int, typer.Option(min=1, help="Sequences (scan and mixer).")] = 1,
    length: Annotated[int, typer.Option(min=1, help="Steps.")] = 512,
    layers: Annotated[int, typer.Option(min=0, help="Layers of the whole models; 0 leaves them out.")] = 24,
    repeats: Rounds = 9,
    json: Json = False,
) -> None:
    """Mamba: the scan from 16 states to 4, the mixer against its products, transformers models against `accelerate`."""
    from aireprune.cli.bench import mamba

    mamba(batch, length, layers, repeats, json)


@bench.command("s4d")
def bench_s4d(
    features: Annotated[int, typer.Option(min=1, help="Channels h.")] = 256,
    pairs: Annotated[int, typer.Option(min=1, help="Stored pairs per channel.")] = 32,
    repeats: Rounds = 9,
    json: Json = False,
) -> None:
    """One S4D layer: our scan, einsum and FFT, FFT with a cached kernel; full, at 25 % kept, and ragged."""
    from aireprune.cli.bench import s4d

    s4d(features, pairs, repeats, json)
