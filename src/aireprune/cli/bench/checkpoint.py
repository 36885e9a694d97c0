"""aire bench checkpoint: pruning a large checkpoint beside copying it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from aireprune.cli.options import Json
from aireprune.cli.output import print_json, say, stderr, table


def checkpoint(
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
    from aireprune.bench.checkpoint import bench_checkpoint
    from aireprune.bench.mamba_checkpoint import MambaSize, make_mamba_checkpoint

    source = folder / f"mamba-{layers}-layers"
    made = not source.exists()
    if made:
        stderr().print(f"making {source} …")
        make_mamba_checkpoint(source, MambaSize(layers=layers))

    def command(origin: Path, target: Path) -> list[str]:
        aire = [sys.executable, "-m", "aireprune"]
        return [*aire, "prune", str(origin), "-o", str(target), "--ratio", str(ratio), "--json"]

    try:
        result = bench_checkpoint(source, command, folder, repeats=repeats, progress=lambda line: stderr().print(line))
    finally:
        if made:
            shutil.rmtree(source, ignore_errors=True)
    if json:
        print_json(result)
    else:
        _show(result, repeats)


def _show(result: dict[str, Any], repeats: int) -> None:
    from statistics import median

    say(
        table(
            f"Pruning {result['bytes'] / 1e9:.2f} GB on disk, {repeats} pairs, cp and prune taking turns",
            ("", "median", "all (s)"),
            (
                (what, f"{median(times):.2f} s", " ".join(f"{t:.2f}" for t in times))
                for what, times in (("cp -r", result["cp_seconds"]), ("aire prune", result["prune_seconds"]))
            ),
        )
    )
    say(f"time of prune / time of cp (median of pairs): {result['ratio']:.2f}")
    say(f"peak memory of prune: {result['peak_rss_bytes'] / 1e6:.0f} MB")
