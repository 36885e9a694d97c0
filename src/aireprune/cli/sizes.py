"""What pruning did to the size of a checkpoint: parameters and bytes, and what to say when the file stays large."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aireprune.cli.output import percent

if TYPE_CHECKING:
    from aireprune.pruning.source import FileSource


@dataclass(frozen=True)
class Sizes:
    """Parameters and bytes, before and after, and the share of the parameters that are the states'."""

    parameters: tuple[int, int]
    bytes: tuple[int, int]
    state_share: float

    def to_dict(self) -> dict[str, Any]:
        return {"parameters": list(self.parameters), "bytes": list(self.bytes), "state_share": self.state_share}

    @property
    def advice(self) -> str | None:
        """What to say if the file stays large because little of it is the states'."""
        saved = 1 - self.parameters[1] / max(self.parameters[0], 1)
        if self.state_share > 0.2 or saved > 0.1:
            return None
        return (
            f"Only {percent(self.state_share)} of the parameters lie along states, so the file can hardly shrink further; "
            "what shrinks is the state that every sequence carries."
        )


def sizes_of(source: FileSource, target: Path) -> Sizes:
    from aireprune.families import FAMILIES
    from aireprune.files import open_checkpoint

    shapes = source.checkpoint.shapes
    along = {name for layer in source.layers for name in FAMILIES[layer.family].cuts(layer)}
    total = sum(map(prod, shapes.values()))
    states = sum(prod(shapes[name]) for name in along if name in shapes)
    after = sum(map(prod, open_checkpoint(target).shapes.values()))
    sizes = (bytes_of(source.checkpoint.path), bytes_of(target))
    return Sizes((total, after), sizes, states / max(total, 1))


def bytes_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
