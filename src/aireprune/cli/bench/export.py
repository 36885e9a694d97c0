"""aire bench export: checkpoints as ONNX files in onnxruntime, beside our own kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aireprune.cli.bench.cells import milliseconds, spread
from aireprune.cli.bench.options import Rounds
from aireprune.cli.options import Config, Json
from aireprune.cli.output import print_json, say, size, table, waiting


def export(
    checkpoints: Annotated[list[Path], typer.Argument(metavar="DENSE [PRUNED]...", help="Checkpoints to compare.")],
    config: Config = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences at a time.")] = 1,
    length: Annotated[int, typer.Option(min=1, help="Steps or tokens.")] = 1024,
    opset: Annotated[int, typer.Option(help="Of the graphs; 27 has LinearAttention for selective scans.")] = 20,
    threads: Annotated[int, typer.Option(min=1, help="Of both; more than one are in each other's way.")] = 1,
    repeats: Rounds = 9,
    json: Json = False,
) -> None:
    """The size and the speed of exported models in onnxruntime, dense and pruned, and our own kernels beside them."""
    from aireprune.bench.export import bench_export
    from aireprune.exports.request import ExportRequest

    with waiting("measuring"):
        request = ExportRequest(to="onnx", opset=opset)
        result = bench_export(checkpoints, config, request, (batch, length), repeats, threads)
    if json:
        print_json(result)
    else:
        _show(result)


def _show(result: dict[str, Any]) -> None:
    from aireprune.bench.export import OURS, THEIRS

    found = result["models"].values()
    rows = [
        ("ONNX file", *(size(model["bytes"]) for model in found)),
        ("largest difference, relative", *(f"{model['difference']:.0e}" for model in found)),
    ]
    for engine in (THEIRS, OURS):
        rows.append((engine, *(milliseconds(model["seconds"][engine][0]) for model in found)))
        if len(found) > 1:
            rows.append(("  times faster", *(spread(model["speedup"][engine]) for model in found)))
    rows.append((f"{THEIRS} / {OURS}", *(spread(model["ours to theirs"]) for model in found)))
    on = f"opset {result['opset']}, threads {result['threads']}"
    title = f"Batch {result['batch']}, length {result['length']}, fp32, {on}; ratios with quartiles"
    say(table(title, ("", *result["models"]), rows))
