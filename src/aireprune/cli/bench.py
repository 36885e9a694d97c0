"""aire bench: measurements, as ratios within one run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

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


def mamba(batch: int, length: int, layers: int, repeats: int, json: bool) -> None:
    from aireprune.bench.mamba import bench_mamba

    with stderr.status("measuring"):
        result = bench_mamba(batch, length, (512, 768, 1024), layers, repeats, max(2, repeats // 3))
    if json:
        print_json(result)
        return
    rows = [("scan, N 16 → 4 (1536 channels)", *_faster(result["scan"], "16", "4", "16 to 4"))]
    for width, found in result["mixer"].items():
        rows.append((f"mixer, d_model {width}, N 16 → 4", *_faster(found, "16", "4", "16 to 4")))
        rows.append(
            (f"mixer / its four products, d_model {width}", *_faster(found, "16", "products", "16 to products"))
        )
    for what, found in result["model"].items():
        rows.append((f"{what}, stock → accelerated", *_faster(found, "stock", "accelerated", "stock to accelerated")))
    title = f"Mamba, batch {batch}, length {length}, fp32; models of {layers} layers in the shape of 130M"
    console.print(table(title, ("", "first", "second", "ratio", "quartiles"), rows))


def s4d(features: int, pairs: int, repeats: int, json: bool) -> None:
    from aireprune.bench.s4d import CACHED, EINSUM, KEPT, OURS, RAGGED, bench_s4d

    with stderr.status("measuring"):
        result = bench_s4d((1024, 4096), (1, 8), features, pairs, repeats, max(2, repeats // 3))
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
        (f"L {found['length']}, batch {found['batch']}", f"{slow} → {fast}", *_faster(found, slow, fast, key))
        for found in result["sizes"]
        for slow, fast, key in compared
    ]
    title = f"S4D layer, {features} channels of {pairs} pairs, fp32, weights changing with every call"
    console.print(table(title, ("size", "", "first", "second", "ratio", "quartiles"), rows))


def _faster(found: dict[str, Any], slow: str, fast: str, key: str) -> tuple[str, str, str, str]:
    """Two times and their ratio with its quartiles, as cells."""
    seconds, (middle, low, high) = found["seconds"], found[key]
    return (
        f"{1e3 * seconds[slow]:.2f} ms",
        f"{1e3 * seconds[fast]:.2f} ms",
        f"{middle:.2f}x",
        f"{low:.2f} to {high:.2f}",
    )
