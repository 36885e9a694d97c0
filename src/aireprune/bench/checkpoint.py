"""How long pruning a large sharded checkpoint takes and how much memory, against copying the same directory with cp."""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from aireprune.bench.process import run_command
from aireprune.files.writing.atomic import remove


def bench_checkpoint(
    source: Path,
    command: Callable[[Path, Path], Sequence[str]],
    workdir: Path,
    repeats: int = 4,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Time `cp -r source target` and `command(source, target)` in turn, and the peak memory of the latter.

    Both run as processes of their own, in alternating order. Before each run the source is read once, so that it is
    in the page cache for both, earlier output is deleted, and dirty pages are on disk. Times run until the process
    ends, as a user sees it. The first pair only warms up and is not counted. The ratio is the median over
    neighbouring runs, between which the load on the machine changes least.
    """
    copies: list[float] = []
    prunes: list[float] = []
    peak = 0
    workdir.mkdir(parents=True, exist_ok=True)
    for number in range(-1, repeats):
        turns = ["cp", "prune"] if number % 2 == 0 else ["prune", "cp"]
        for turn in turns:
            target = workdir / f"bench-{turn}-{os.getpid()}"
            todo = ["cp", "-r", str(source), str(target)] if turn == "cp" else list(command(source, target))
            _settle(source)
            try:
                seconds, resident = run_command(todo)
            finally:
                remove(target)
            if number < 0:
                continue
            progress(f"{turn} {seconds:.2f} s, peak {resident / 1e6:.0f} MB")
            (copies if turn == "cp" else prunes).append(seconds)
            peak = max(peak, resident) if turn == "prune" else peak
    return {
        "bytes": sum(path.stat().st_size for path in source.rglob("*") if path.is_file()),
        "cp_seconds": copies,
        "prune_seconds": prunes,
        "ratio": statistics.median(prune / copy for prune, copy in zip(prunes, copies, strict=True)),
        "ratio_of_best": min(prunes) / min(copies),
        "peak_rss_bytes": peak,
        "free_bytes": shutil.disk_usage(workdir).free,
    }


def _settle(source: Path) -> None:
    """Pending writes to disk, the source into the page cache."""
    os.sync()
    for path in sorted(source.iterdir()):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 24):
                    pass
