"""The results of a sweep on disk: cells.jsonl, a line for every model that was pruned and judged."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aireprune.errors import AireError
from aireprune.experiments.stored import number, text, understood, whole
from aireprune.files.writing.atomic import atomic_path

Packed = str | tuple[float, ...]


class Key(NamedTuple):
    """Which cell: the variant's name, the share of states to remove, and the seed."""

    variant: str
    ratio: float
    seed: int


class LayerCount(NamedTuple):
    """How many of a layer's states were kept."""

    name: str
    kept: int
    states: int


def layer_counts(values: Iterable[Sequence[Any]]) -> tuple[LayerCount, ...]:
    """From JSON: [name, kept, states] of every layer."""
    return tuple(LayerCount(text(name), whole(kept), whole(states)) for name, kept, states in values)


@dataclass(frozen=True, kw_only=True)
class Result:
    """A cell that was done.

    removed: the share of states that really went. validation, test: the task's metric. answers: what `pack` made of
    the metric of every test example.
    """

    key: Key
    removed: float
    layers: tuple[LayerCount, ...]
    parameters: int
    validation: float
    test: float
    answers: Packed

    def per_example(self, count: int) -> np.ndarray:
        """The metric of every test example, (count,)."""
        if isinstance(self.answers, str):
            complete = 8 * len(base64.b64decode(self.answers)) >= count
        else:
            complete = len(self.answers) == count
        if not complete:
            raise AireError(
                f"The cell {self.key.variant} at {self.key.ratio:g} in cells.jsonl does not hold the answers to {count} "
                "examples. Delete its line, and it is done again."
            )
        return unpack(self.answers, count)

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.key._asdict(),
            "removed": self.removed,
            "layers": [list(layer) for layer in self.layers],
            "parameters": self.parameters,
            "validation": self.validation,
            "test": self.test,
            "answers": self.answers if isinstance(self.answers, str) else list(self.answers),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Result:
        answers = values["answers"]
        if isinstance(answers, str):
            base64.b64decode(answers, validate=True)
        return cls(
            key=Key(text(values["variant"]), number(values["ratio"]), whole(values["seed"])),
            removed=number(values["removed"]),
            layers=layer_counts(values["layers"]),
            parameters=whole(values["parameters"]),
            validation=number(values["validation"]),
            test=number(values["test"]),
            answers=answers if isinstance(answers, str) else tuple(map(number, answers)),
        )


Results = Mapping[Key, Result]


def read_cells(path: Path) -> dict[Key, Result]:
    """What was done. A last line that was cut off in the middle is removed from the file and done again."""
    if not path.is_file():
        return {}
    content = path.read_bytes()
    ended = content[: content.rfind(b"\n") + 1]
    if ended != content:
        with atomic_path(path) as temporary:
            temporary.write_bytes(ended)
    results = []
    for line, cell in enumerate(ended.splitlines(), 1):
        with understood(path, f"holds a line that is not a cell of a sweep: delete line {line}, or the file"):
            results.append(Result.from_dict(json.loads(cell)))
    return {result.key: result for result in results}


def append_cell(path: Path, result: Result) -> None:
    """Write one more line, and be sure that it is on disk."""
    with path.open("a") as file:
        file.write(json.dumps(result.to_dict()) + "\n")
        file.flush()
        os.fsync(file.fileno())


def pack(values: np.ndarray) -> Packed:
    """Right and wrong answers as base64 of their bits; other values rounded."""
    if np.isin(values, (0.0, 1.0)).all():
        return base64.b64encode(np.packbits(values.astype(bool)).tobytes()).decode()
    return tuple(round(float(value), 5) for value in values)


def unpack(answers: Packed, count: int) -> np.ndarray:
    """The values that were packed, (count,)."""
    if isinstance(answers, str):
        bits = np.unpackbits(np.frombuffer(base64.b64decode(answers), np.uint8), count=count)
        return bits.astype(float)
    return np.asarray(answers, float)
