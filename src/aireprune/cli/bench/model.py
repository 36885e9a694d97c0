"""aire bench model: checkpoints side by side, or whole S5 models at the paper's sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aireprune.cli.bench.cells import milliseconds, spread
from aireprune.cli.bench.options import OtherRounds, Rounds, Tasks, check_suite
from aireprune.cli.options import Config, Json
from aireprune.cli.output import percent, print_json, say, table, waiting


def model(
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
    if suite is not None:
        check_suite(suite)
        _suite(tasks or [], batch, repeats, other_repeats, json)
        return
    if not checkpoints:
        raise typer.BadParameter("give checkpoints, or --suite lra.")
    from aireprune.bench.model import bench_model

    with waiting("measuring"):
        result = bench_model(checkpoints, config, batch, length, repeats, memory)
    if json:
        print_json(result)
    else:
        _show(result)


def _show(result: dict[str, Any]) -> None:
    found = result["models"]
    rows = [
        (what, *(f"{model[key]:,}" for model in found.values()))
        for what, key in (
            ("parameters", "parameters"),
            ("bytes on disk", "bytes"),
            ("states", "states"),
            ("state bytes per sequence", "state bytes per sequence"),
        )
    ]
    first = next(iter(found.values()))
    if first["peak memory"] is not None:
        rows.append(("peak memory", *(f"{model['peak memory']['peak'] / 1e6:.0f} MB" for model in found.values())))
    for task in first["seconds"]:
        rows.append((task, *(_timed(model, task) for model in found.values())))
        if len(found) > 1:
            rows.append(("  times faster", *(spread(model["speedup"][task]) for model in found.values())))
    title = f"Length {result['length']}, batch {result['batch']}, fp32; quartiles in brackets"
    say(table(title, ("", *found), rows))


def _timed(model: dict[str, Any], task: str) -> str:
    middle, low, high = model["seconds"][task]
    if task in model["per second"]:
        return f"{model['per second'][task]:.1f}/s"
    return f"{milliseconds(middle)} ({1e3 * low:.2f} to {1e3 * high:.2f})"


def _suite(tasks: list[str], batch: int, repeats: int, other_repeats: int, json: bool) -> None:
    from aireprune.bench.lra import chosen
    from aireprune.bench.s5 import bench_models

    result = {}
    for name, size in chosen(tasks).items():
        with waiting(f"measuring {name}"):
            result[name] = bench_models(name, size, batch, repeats, other_repeats)
    if json:
        print_json(result)
    else:
        _show_suite(result, batch)


def _show_suite(result: dict[str, dict[str, Any]], batch: int) -> None:
    from aireprune.bench.lra import LAYERS
    from aireprune.bench.s5_pytorch import OTHER

    rows = [
        (
            name,
            percent(found["removed"], 0),
            milliseconds(found["seconds"]["ours"], 1),
            milliseconds(found["seconds"]["removed"], 1),
            spread(found["speedup"]),
            f"{found['ideal']:.2f}",
            percent(found["share of ideal"], 0),
            percent(found["reduction"]),
            f"{found['paper']['speedup on an H100']:.2f}",
            f"{found['paper']['reduction']:.1f} %",
            spread(found["s5-pytorch to ours"]),
        )
        for name, found in result.items()
    ]
    columns = (
        "", "removed", "dense", "pruned", "speedup", "ideal", "of ideal", "parameters saved", "paper, H100: speedup",
        "paper: saved", f"{OTHER} / ours",
    )  # fmt: skip
    title = f"S5 models of {LAYERS} layers at the paper's sizes and ratios, batch {batch}, fp32; ratios with quartiles"
    say(table(title, columns, rows))
