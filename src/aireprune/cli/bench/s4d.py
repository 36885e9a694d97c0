"""aire bench s4d: our scan of an S4D layer against FFT."""

from __future__ import annotations

from typing import Annotated

import typer

from aireprune.cli.bench.cells import faster
from aireprune.cli.bench.options import Rounds
from aireprune.cli.options import Json
from aireprune.cli.output import print_json, say, table, waiting

LENGTHS, BATCHES = (1024, 4096), (1, 8)


def s4d(
    features: Annotated[int, typer.Option(min=1, help="Channels h.")] = 256,
    pairs: Annotated[int, typer.Option(min=1, help="Stored pairs per channel.")] = 32,
    repeats: Rounds = 9,
    json: Json = False,
) -> None:
    """One S4D layer: our scan, einsum and FFT, FFT with a cached kernel; full, at 25 % kept, and ragged."""
    from aireprune.bench.s4d import CACHED, EINSUM, KEPT, OURS, RAGGED, bench_s4d

    with waiting("measuring"):
        result = bench_s4d(LENGTHS, BATCHES, features, pairs, repeats, max(2, repeats // 3))
    if json:
        print_json(result)
        return
    compared = (
        (EINSUM, OURS, "einsum to ours"),
        (CACHED, OURS, "cached to ours"),
        (CACHED, KEPT, "cached to kept"),
        (CACHED, RAGGED, "cached to ragged"),
    )
    rows = [
        (f"L {found['length']}, batch {found['batch']}", f"{slow} → {fast}", *faster(found, slow, fast, ratio))
        for found in result["sizes"]
        for slow, fast, ratio in compared
    ]
    title = f"S4D layer, {features} channels of {pairs} pairs, fp32, weights changing with every call"
    say(table(title, ("size", "", "first", "second", "ratio", "quartiles"), rows))
