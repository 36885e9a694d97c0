"""Many inputs for one reader, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from faults.inputs import make
from faults.measure import Outcome, exercise, measured

from aireprune.files import open_checkpoint
from aireprune.files.sizes import resized_config


@dataclass
class Tally:
    """How the inputs of a reader ended; `faults` are those that should not have, by number."""

    reader: str
    accepted: int = 0
    refused: int = 0
    tracebacks: int = 0
    slow: int = 0
    greedy: int = 0
    slowest: float = 0.0
    memory: float = 0.0
    faults: dict[int, str] = field(default_factory=dict)

    def add(self, number: int, outcome: Outcome) -> None:
        self.accepted += outcome.kind == "accepted"
        self.refused += outcome.kind == "refused"
        self.tracebacks += outcome.kind == "traceback"
        self.slow += outcome.slow
        self.greedy += outcome.greedy
        self.slowest = max(self.slowest, outcome.seconds)
        self.memory = max(self.memory, outcome.memory)
        if outcome.fault is not None:
            self.faults[number] = outcome.fault


def with_sizes(path: Path, scratch: Path) -> int:
    """The usual exercise, and new state counts for the configuration."""
    checkpoint = open_checkpoint(path)
    layers = ["backbone.layers.0.mixer", "backbone.layers.1.mixer"]
    for sizes in ([4, 4], [4, 2]):
        resized_config(checkpoint.kind, checkpoint.config, layers, sizes)
    return exercise(path, scratch)


def fuzz(reader: str, seed: int, numbers: Iterable[int], folder: Path) -> Tally:
    """Exercise inputs of a reader in an empty folder."""
    inputs, scratch = folder / "in", folder / "out"
    inputs.mkdir()
    scratch.mkdir()
    tally = Tally(reader)
    for number in numbers:
        path = make(reader, seed, number, inputs)
        tally.add(number, measured(path, scratch, with_sizes if reader == "config" else exercise))
    return tally
