"""How large models are: parameters, and bytes of their weights on disk."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from aireprune.families import FAMILIES, Found
from aireprune.files.folder_parts import find_parts
from aireprune.pruning.source import FileSource, Source

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # of batch norms: stored, but not parameters


@dataclass(frozen=True)
class Size:
    """bytes: None of a model in memory."""

    parameters: int
    bytes: int | None


def size_of(source: Source) -> Size:
    """Entries of all tensors but the statistics of norms, and bytes of the files."""
    arrays = source.checkpoint if isinstance(source, FileSource) else source.arrays
    counted = (
        prod(shape)
        for name, shape in arrays.shapes.items()
        if not name.endswith(STATISTICS) and not name.startswith("batch_stats.")
    )
    return Size(sum(counted), _bytes(source.checkpoint.path) if isinstance(source, FileSource) else None)


def per_size(found: Found, number: int) -> int:
    """How many parameters a layer has less when its arrays hold one state less (in each group or row)."""
    layer = found.layers[number]
    parts = max(layer.groups, layer.rows)
    if layer.states // max(parts, 1) < 1:
        return 0
    kept = np.arange(layer.states).reshape(parts, -1)[:, :-1].ravel()
    removed = 0
    for name, cut in FAMILIES[layer.family].cuts(layer).items():
        shape = found.arrays.shapes[name]
        removed += prod(shape) - cut.remove(np.broadcast_to(np.float32(0), shape), kept).size
    return removed


def _bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum((path / name).stat().st_size for name in find_parts(path).names)


def count_text(count: int) -> str:
    """A number of things as people read it: 67,722, or 1.37 billion."""
    return (
        f"{count / 1e9:.2f} billion" if count >= 1e9 else f"{count / 1e6:.1f} million" if count >= 1e7 else f"{count:,}"
    )


def bytes_text(count: int) -> str:
    units = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
    unit, scale = next(((unit, scale) for unit, scale in units if count >= scale), ("kB", 1e3))
    return f"{count / scale:.3g} {unit}" if count < 999.5 * scale else f"{count / scale:.0f} {unit}"
