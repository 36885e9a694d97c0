"""What pruning did to the size of a checkpoint, and outputs of commands that fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aireprune.arrays import Shape
    from aireprune.pruning.costs import Costs
    from aireprune.pruning.plan import Plan
    from aireprune.pruning.source import FileSource

LEFT_OUT = 1.2  # times larger than its tensors: from here on a file holds more than a copy gets


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Parameters and bytes of the weights, before and after, and what states cost."""

    parameters: tuple[int, int]
    bytes: tuple[int, int]
    costs: Costs

    def to_dict(self) -> dict[str, Any]:
        return {
            "parameters": list(self.parameters),
            "bytes": list(self.bytes),
            "state_bytes_per_sequence": list(self.costs.memory),
            "state_share_of_parameters": self.costs.parameter_share,
            "state_share_of_operations": self.costs.operation_share,
            "expected_speedup": self.costs.speedup,
        }


def sizes_of(source: FileSource, target: Path, plan: Plan) -> Sizes:
    """Of a checkpoint and the one that was made of it."""
    from aireprune.files import open_checkpoint
    from aireprune.pruning.costs import costs

    before, after = source.checkpoint, open_checkpoint(target)
    written = bytes_of(after.path)
    share = _entries(before.shapes) / max(_entries(after.shapes), 1)
    read = bytes_of(before.path)
    if read > LEFT_OUT * share * written:  # an optimiser's state, which is not copied, does not count
        read = round(share * written)
    return Sizes(
        parameters=(_parameters(before.shapes), _parameters(after.shapes)),
        bytes=(read, written),
        costs=costs(source, plan),
    )


def _entries(shapes: Mapping[str, Shape]) -> int:
    return sum(map(prod, shapes.values()))


def _parameters(shapes: Mapping[str, Shape]) -> int:
    from aireprune.pruning.costs import is_parameter

    return sum(prod(shape) for name, shape in shapes.items() if is_parameter(name))


def bytes_of(path: Path) -> int:
    """Bytes of a file of weights, or of all of them in a folder."""
    if path.is_file():
        return path.stat().st_size
    from aireprune.files.folder_parts import find_parts
    from aireprune.files.orbax.checkpoint import is_orbax

    if is_orbax(path):
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
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
