"""What pruning did to the size of a checkpoint, what to say when it stays large, and outputs of commands that fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aireprune.cli.output import percent

if TYPE_CHECKING:
    from aireprune.files.base import Checkpoint
    from aireprune.pruning.plan import Plan
    from aireprune.pruning.source import FileSource

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # of batch norms: stored, but not parameters
LITTLE = 0.1  # share of the parameters, below which the states are not what makes a file large


@dataclass(frozen=True)
class Sizes:
    """Parameters and bytes of the weights, before and after."""

    parameters: tuple[int, int]
    bytes: tuple[int, int]

    def to_dict(self) -> dict[str, Any]:
        return {"parameters": list(self.parameters), "bytes": list(self.bytes)}

    def advice(self, plan: Plan) -> str | None:
        """What to say if the file stays large because few of its parameters are the states'."""
        saved = 1 - self.parameters[1] / max(self.parameters[0], 1)
        share = saved / plan.achieved_ratio if plan.achieved_ratio else 1.0
        if share > LITTLE:
            return None
        return (
            f"About {percent(share)} of the parameters belong to states, so the file can hardly shrink; what shrinks is "
            "the state that every sequence carries."
        )


def sizes_of(source: FileSource, target: Path) -> Sizes:
    """Of a checkpoint and the one that was made of it."""
    from aireprune.files import open_checkpoint

    before, after = source.checkpoint, open_checkpoint(target)
    return Sizes((_parameters(before), _parameters(after)), (bytes_of(before.path), bytes_of(after.path)))


def _parameters(checkpoint: Checkpoint) -> int:
    """Entries of all tensors but the statistics of norms."""
    return sum(
        prod(shape)
        for name, shape in checkpoint.shapes.items()
        if not name.endswith(STATISTICS) and not name.startswith("batch_stats.")
    )


def bytes_of(path: Path) -> int:
    """Bytes of a file of weights, or of all of them in a folder."""
    if path.is_file():
        return path.stat().st_size
    from aireprune.files.folder_parts import find_parts

    return sum((path / name).stat().st_size for name in find_parts(path).names)


@contextmanager
def withdrawn_on_failure(target: Path, overwrite: bool) -> Iterator[None]:
    """An output exists only if its command succeeded: what was not there before goes again.

    With `overwrite` the old output is gone by then, and the new one, which is whole, stays.
    """
    from aireprune.files.single import beside
    from aireprune.files.writing.temporaries import remove

    made = [path for path in (target, beside(target, "json"), beside(target, "plan.json")) if not path.exists()]
    try:
        yield
    except BaseException:
        for path in made if not overwrite else ():
            remove(path)
        raise
