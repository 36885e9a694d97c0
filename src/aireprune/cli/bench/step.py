"""aire bench step: one step of a model in its recurrent mode."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aireprune.cli.bench.cells import spread
from aireprune.cli.bench.options import Rounds
from aireprune.cli.options import Json
from aireprune.cli.output import percent, print_json, say, table, waiting
from aireprune.errors import AireError


def step(
    family: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="s5, s4d, lru, mamba or mamba2; may be repeated. All of them otherwise."),
    ] = None,
    features: Annotated[int, typer.Option(min=1, help="Features h, or d_model.")] = 256,
    states: Annotated[
        int, typer.Option(min=2, help="State size n, both halves of each pair counted, or d_state.")
    ] = 64,
    layers: Annotated[int, typer.Option(min=1, help="Layers.")] = 4,
    batch: Annotated[int, typer.Option(min=1, help="Independent streams.")] = 1,
    kept: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the states that the pruned model has.")
    ] = 0.25,
    repeats: Rounds = 15,
    json: Json = False,
) -> None:
    """One step of a model: latency, streams per second and state bytes; dense, pruned, and dense in plain torch."""
    from aireprune.bench.step import FAMILIES, StepSize, bench_step

    wanted = tuple(family or FAMILIES)
    for name in wanted:
        if name not in FAMILIES:
            raise AireError(f"There is no family {name!r} to measure; there are {', '.join(FAMILIES)}.")
    size = StepSize(features=features, states=states, layers=layers, batch=batch, kept=kept)
    with waiting("measuring"):
        result = bench_step(wanted, size, repeats)
    if json:
        print_json(result)
    else:
        _show(result)


def _show(result: dict[str, Any]) -> None:
    from aireprune.bench.step import DENSE, PRUNED, TORCH

    size = result["size"]
    rows = [
        (
            name,
            *(f"{1e6 * found['seconds'][run]:.0f} µs" for run in (TORCH, DENSE, PRUNED)),
            spread(found["plain torch to dense"]),
            spread(found["dense to pruned"]),
            *(f"{found['streams per second'][run]:,.0f}" for run in (DENSE, PRUNED)),
            *(f"{found['state bytes'][run]:,}" for run in (DENSE, PRUNED)),
        )
        for name, found in result["families"].items()
    ]
    columns = (
        "", "plain torch", "dense", "pruned", "torch / dense", "dense / pruned", "steps/s, dense", "pruned",
        "state bytes, dense", "pruned",
    )  # fmt: skip
    title = (
        f"One step of {size['batch']} stream{'s' * (size['batch'] > 1)}: {size['layers']} layers, "
        f"{size['features']} features, {size['states']} states, {percent(size['kept'], 0)} of them kept; fp32"
    )
    say(table(title, columns, rows))
