"""aire bench layer: one S5 layer at the paper's sizes."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from aireprune.cli.bench.cells import milliseconds, spread
from aireprune.cli.bench.options import OtherRounds, Rounds, Suite, Tasks, check_suite
from aireprune.cli.options import Json
from aireprune.cli.output import percent, print_json, say, table, waiting


def layer(
    suite: Suite = "lra",
    tasks: Tasks = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences.")] = 8,
    repeats: Rounds = 9,
    other_repeats: OtherRounds = 3,
    json: Json = False,
) -> None:
    """One S5 layer per size: its matrix products alone, ours, s5-pytorch if installed; dense, masked and removed."""
    from aireprune.bench.lra import chosen
    from aireprune.bench.s5 import bench_layer

    check_suite(suite)
    result = {}
    for name, size in chosen(tasks or []).items():
        with waiting(f"measuring {name}"):
            result[name] = bench_layer(size, batch, repeats, other_repeats)
    against = [found["s5-pytorch to ours"][0] for found in result.values() if found["s5-pytorch to ours"]]
    mean = math.prod(against) ** (1 / len(against)) if against else None
    if json:
        print_json({"sizes": result, "s5-pytorch to ours, geometric mean": mean})
    else:
        _show(result, batch, mean)


def _show(result: dict[str, dict[str, Any]], batch: int, mean: float | None) -> None:
    from aireprune.bench.s5_pytorch import OTHER

    rows = [
        (
            name,
            f"h {found['h']}, n {found['n']}, L {found['length']}",
            milliseconds(found["seconds"]["products"], 1),
            milliseconds(found["seconds"]["ours"], 1),
            spread(found["ours to products"]),
            spread(found["ours to products in place"]),
            milliseconds(found["seconds"][OTHER], 0) if OTHER in found["seconds"] else "",
            spread(found["s5-pytorch to ours"]),
            percent(found["removed"], 0),
            spread(found["ours to masked"]),
            spread(found["ours to removed"]),
        )
        for name, found in result.items()
    ]
    columns = (
        "", "size", "products", "ours", "ours / products", "/ products in place", OTHER, f"{OTHER} / ours", "removed",
        "dense / masked", "dense / removed",
    )  # fmt: skip
    say(table(f"One bidirectional S5 layer, batch {batch}, fp32; ratios with quartiles", columns, rows, left=2))
    if mean:
        say(f"{OTHER} / ours, geometric mean: {mean:.2f}")
