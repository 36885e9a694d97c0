"""aire bench mamba: the selective scan, the mixer and whole transformers models."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aireprune.cli.bench.cells import faster
from aireprune.cli.bench.options import Rounds
from aireprune.cli.options import Json
from aireprune.cli.output import print_json, say, table, waiting

WIDTHS = (512, 768, 1024)  # d_model of the mixers


def mamba(
    batch: Annotated[int, typer.Option(min=1, help="Sequences (scan and mixer).")] = 1,
    length: Annotated[int, typer.Option(min=1, help="Steps.")] = 512,
    layers: Annotated[int, typer.Option(min=0, help="Layers of the whole models; 0 leaves them out.")] = 24,
    repeats: Rounds = 9,
    json: Json = False,
) -> None:
    """Mamba: the scan from 16 states to 4, the mixer against its products, transformers models against `accelerate`."""
    from aireprune.bench.mamba import bench_mamba

    with waiting("measuring"):
        result = bench_mamba(batch, length, WIDTHS, layers, repeats, max(2, repeats // 3))
    if json:
        print_json(result)
        return
    title = f"Mamba, batch {batch}, length {length}, fp32; models of {layers} layers in the shape of 130M"
    say(table(title, ("", "first", "second", "ratio", "quartiles"), _rows(result)))


def _rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("scan, N 16 → 4 (1536 channels)", *faster(result["scan"], "16", "4"))]
    for width, found in result["mixer"].items():
        rows.append((f"mixer, d_model {width}, N 16 → 4", *faster(found, "16", "4")))
        rows.append((f"mixer / its four products, d_model {width}", *faster(found, "16", "products")))
    for what, found in result["model"].items():
        rows.append((f"{what}, stock → accelerated", *faster(found, "stock", "accelerated")))
    return rows
