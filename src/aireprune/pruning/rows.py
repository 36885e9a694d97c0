"""S4D files in a stock layout, where the rows of a layer are as long as the longest: what to do, and what to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aireprune.families.s4d_packed import packable
from aireprune.pruning.plan import Plan
from aireprune.pruning.request import Job
from aireprune.pruning.source import FileSource

LONG_ROWS = 1.5  # modes stored per mode kept, from where on a file is called large


def with_short_rows(job: Job, source: FileSource, target: Path | None = None) -> Job:
    """The job for a copy of `source` at `target`, or anywhere else if it is of the same kind.

    Rows are kept short where they matter (they are all stored as long as the longest) and the job leaves a choice.
    """
    own = target is not None and source.becomes_own(target)
    if own or job.mask or job.request is None or job.request.layout != "adaptive" or not source.rectangular:
        return job
    return replace(job, request=replace(job.request, short_rows=True))


def row_notes(source: FileSource, job: Job, plan: Plan, sizes: Sequence[int]) -> tuple[str, ...]:
    """What to do about a file that stays larger than what was kept. sizes: the stored length of every layer's rows."""
    rows = list(zip(source.layers, sizes, plan.layers, strict=True))
    stored = sum(size * layer.rows for layer, size, _ in rows if layer.rows > 1)
    kept = sum(len(mine.kept) for layer, _, mine in rows if layer.rows > 1)
    if job.mask or not source.rectangular or stored < LONG_ROWS * max(kept, 1):
        return ()
    ways = "layout='uniform' or granularity='state'"
    if source.is_file and all(map(packable, source.layers)):
        ways = "layout='uniform', granularity='state' or our own format (a target without a suffix)"
    return (
        f"the rows of every channel are as long as the longest of their layer: {stored} modes are stored for {kept} "
        f"kept ({stored / max(kept, 1):.1f} times as many); {ways} gives a smaller file.",
    )
