"""aire bench: measurements, as ratios within one run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from aireprune.bench.checkpoint import bench_checkpoint, make_mamba_checkpoint
from aireprune.cli.output import console, print_json, stderr, table


def checkpoint(folder: Path, layers: int, repeats: int, ratio: float, json: bool) -> None:
    source = folder / f"mamba-{layers}-layers"
    made = not source.exists()
    if made:
        stderr.print(f"making {source} …")
        make_mamba_checkpoint(source, layers=layers)

    def command(origin: Path, target: Path) -> list[str]:
        return [
            sys.executable,
            "-m",
            "aireprune",
            "prune",
            str(origin),
            "-o",
            str(target),
            "--ratio",
            str(ratio),
            "--json",
        ]

    try:
        result = bench_checkpoint(source, command, folder, repeats=repeats, progress=lambda line: stderr.print(line))
    finally:
        if made:
            shutil.rmtree(source, ignore_errors=True)
    if json:
        print_json(result)
        return
    console.print(
        table(
            f"Pruning {result['bytes'] / 1e9:.2f} GB on disk, {repeats} pairs, cp and prune taking turns",
            ("", "median", "all (s)"),
            (
                (what, f"{sorted(times)[len(times) // 2]:.2f} s", " ".join(f"{t:.2f}" for t in times))
                for what, times in (("cp -r", result["cp_seconds"]), ("aire prune", result["prune_seconds"]))
            ),
        )
    )
    console.print(f"time of prune / time of cp (median of pairs): {result['ratio']:.2f}")
    console.print(f"peak memory of prune: {result['peak_rss_bytes'] / 1e6:.0f} MB")


def train(batch: int, length: int, h: int, n: int, repeats: int, json: bool) -> None:
    from aireprune.bench.train import bench_train

    with stderr.status("measuring"):
        result = bench_train(batch, length, h, n, repeats)
    if json:
        print_json(result)
        return
    console.print(
        table(
            f"Training step of a bidirectional S5 layer, batch {batch}, length {length}, h {h}, n {n}",
            ("implementation", "time", "times ours"),
            (
                (name, f"{1e3 * seconds:.0f} ms", f"{result['ratio'][name]:.2f}x")
                for name, seconds in result["seconds"].items()
            ),
        )
    )
