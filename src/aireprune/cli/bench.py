"""aire bench: measurements, as ratios within one run."""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path
from statistics import median
from typing import Any

from aireprune.bench.checkpoint import bench_checkpoint
from aireprune.bench.mamba_checkpoint import MambaSize, make_mamba_checkpoint
from aireprune.cli.output import console, percent, print_json, stderr, table
from aireprune.errors import AireError


def checkpoint(folder: Path, layers: int, repeats: int, ratio: float, json: bool) -> None:
    source = folder / f"mamba-{layers}-layers"
    made = not source.exists()
    if made:
        stderr.print(f"making {source} …")
        make_mamba_checkpoint(source, MambaSize(layers=layers))

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
                (what, f"{median(times):.2f} s", " ".join(f"{t:.2f}" for t in times))
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
                (name, f"{1e3 * seconds:.0f} ms", _spread(result["ratio"][name]))
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


def only_lra(suite: str) -> None:
    if suite != "lra":
        raise AireError(f"There is no suite {suite!r}; there is lra.")


def layer(tasks: list[str], batch: int, repeats: int, other_repeats: int, json: bool) -> None:
    from aireprune.bench.lra import chosen
    from aireprune.bench.s5 import bench_layer
    from aireprune.bench.s5_pytorch import OTHER

    result = {}
    for name, size in chosen(tasks).items():
        with stderr.status(f"measuring {name}"):
            result[name] = bench_layer(size, batch, repeats, other_repeats)
    against = [found["s5-pytorch to ours"][0] for found in result.values() if found["s5-pytorch to ours"]]
    mean = math.prod(against) ** (1 / len(against)) if against else None
    if json:
        print_json({"sizes": result, "s5-pytorch to ours, geometric mean": mean})
        return
    rows = [
        (
            name,
            f"h {found['h']}, n {found['n']}, L {found['length']}",
            f"{1e3 * found['seconds']['products']:.1f} ms",
            f"{1e3 * found['seconds']['ours']:.1f} ms",
            _spread(found["ours to products"]),
            _spread(found["ours to products in place"]),
            f"{1e3 * found['seconds'][OTHER]:.0f} ms" if OTHER in found["seconds"] else "",
            _spread(found["s5-pytorch to ours"]),
            percent(found["removed"], 0),
            _spread(found["ours to masked"]),
            _spread(found["ours to removed"]),
        )
        for name, found in result.items()
    ]
    columns = (
        "", "size", "products", "ours", "ours / products", "/ products in place", OTHER, f"{OTHER} / ours", "removed",
        "dense / masked", "dense / removed",
    )  # fmt: skip
    console.print(
        table(f"One bidirectional S5 layer, batch {batch}, fp32; ratios with quartiles", columns, rows, left=2)
    )
    if mean:
        console.print(f"{OTHER} / ours, geometric mean: {mean:.2f}")


def models(tasks: list[str], batch: int, repeats: int, other_repeats: int, json: bool) -> None:
    from aireprune.bench.lra import LAYERS, chosen
    from aireprune.bench.s5 import bench_models
    from aireprune.bench.s5_pytorch import OTHER

    result = {}
    for name, size in chosen(tasks).items():
        with stderr.status(f"measuring {name}"):
            result[name] = bench_models(name, size, batch, repeats, other_repeats)
    if json:
        print_json(result)
        return
    rows = [
        (
            name,
            percent(found["removed"], 0),
            f"{1e3 * found['seconds']['ours']:.1f} ms",
            f"{1e3 * found['seconds']['removed']:.1f} ms",
            _spread(found["speedup"]),
            f"{found['ideal']:.2f}",
            percent(found["share of ideal"], 0),
            percent(found["reduction"]),
            f"{found['paper']['speedup on an H100']:.2f}",
            f"{found['paper']['reduction']:.1f} %",
            _spread(found["s5-pytorch to ours"]),
        )
        for name, found in result.items()
    ]
    columns = (
        "", "removed", "dense", "pruned", "speedup", "ideal", "of ideal", "parameters saved", "paper, H100: speedup",
        "paper: saved", f"{OTHER} / ours",
    )  # fmt: skip
    title = f"S5 models of {LAYERS} layers at the paper's sizes and ratios, batch {batch}, fp32; ratios with quartiles"
    console.print(table(title, columns, rows))


def model(
    paths: list[Path], config: Path | None, batch: int, length: int, repeats: int, memory: bool, json: bool
) -> None:
    from aireprune.bench.model import bench_model

    with stderr.status("measuring"):
        result = bench_model(paths, config, batch, length, repeats, memory)
    if json:
        print_json(result)
        return
    found = result["models"]
    rows = [
        ("parameters", *(f"{model['parameters']:,}" for model in found.values())),
        ("bytes on disk", *(f"{model['bytes']:,}" for model in found.values())),
        ("states", *(f"{model['states']:,}" for model in found.values())),
        ("state bytes per sequence", *(f"{model['state bytes per sequence']:,}" for model in found.values())),
    ]
    if memory:
        rows.append(("peak memory", *(f"{model['peak memory']['peak'] / 1e6:.0f} MB" for model in found.values())))
    first = next(iter(found.values()))
    for task in first["seconds"]:
        rows.append((task, *(_timed(model, task) for model in found.values())))
        if len(found) > 1:
            rows.append(("  times faster", *(_spread(model["speedup"][task]) for model in found.values())))
    console.print(table(f"Length {length}, batch {batch}, fp32; quartiles in brackets", ("", *found), rows))


def scaling(task: str, batch: int, repeats: int, json: bool) -> None:
    from aireprune.bench.lra import chosen
    from aireprune.bench.s5 import bench_scaling

    size = chosen([task])[task]
    with stderr.status("measuring"):
        result = bench_scaling(size, batch, repeats)
    if json:
        print_json({"task": task, "batch": batch, **result})
        return
    rows = [
        (what, label, f"{1e3 * seconds:.2f} ms", _spread(found["per unit"][label]))
        for what, found in result.items()
        for label, seconds in found["seconds"].items()
    ]
    title = f"One S5 layer of size {task}, batch {batch}: time per step, sequence or state, relative to the smallest"
    console.print(table(title, ("of", "number", "time", "per unit"), rows, left=2))


def _timed(model: dict[str, Any], task: str) -> str:
    middle, low, high = model["seconds"][task]
    if task in model["per second"]:
        return f"{model['per second'][task]:.1f}/s"
    return f"{1e3 * middle:.2f} ms ({1e3 * low:.2f} to {1e3 * high:.2f})"


def _spread(found: tuple[float, float, float] | None) -> str:
    return "" if found is None else f"{found[0]:.2f} ({found[1]:.2f}-{found[2]:.2f})"
