"""Two models walked side by side: the full one, and the reduced one on its own activations.

The activations of both at the present layer are kept in single precision if they fit into `memory` bytes. Otherwise
they are made again from the inputs, batch by batch, through the layers that are already calibrated: the same numbers,
at a cost that grows with the square of the depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from aireprune.calibration.inputs import Inputs
from aireprune.calibration.stack import Stack

MEMORY = 2**30


class Pair(NamedTuple):
    """The activations of one batch before a layer."""

    full: Tensor  # (b, L, h)
    reduced: Tensor
    held_out: bool


class Walk:
    def __init__(self, full: Stack, reduced: Stack, inputs: Inputs, memory: int = MEMORY):
        self.full, self.reduced, self.inputs = full, reduced, inputs
        self.kept = 2 * 4 * inputs.tokens * full.width <= memory
        self.at = 0
        self._pairs = [self._start(number) for number in range(inputs.batches)] if self.kept else []

    def __iter__(self) -> Iterator[Pair]:
        """The pairs before the present layer."""
        for number in range(self.inputs.batches):
            if self.kept:
                yield self._pairs[number]
                continue
            pair = self._start(number)
            for i in range(self.at):
                pair = self._step(i, pair)
            yield pair

    def advance(self) -> None:
        """Go to the next layer, once the present one is calibrated."""
        self._pairs = [self._step(self.at, pair) for pair in self._pairs]
        self.at += 1

    def _start(self, number: int) -> Pair:
        x = self.inputs[number]
        return Pair(self.full.encode(x), self.reduced.encode(x), self.inputs.held_out(number))

    def _step(self, i: int, pair: Pair) -> Pair:
        return Pair(_through(self.full, i, pair.full), _through(self.reduced, i, pair.reduced), pair.held_out)


def read_and_target(walk: Walk) -> Iterator[tuple[Tensor, Tensor, bool]]:
    """Per batch: what the reduced layer reads, what the full layer put out, whether it is held out."""
    i = walk.at
    for pair in walk:
        target = walk.full.put_out(i, walk.full.read(i, pair.full))
        yield walk.reduced.read(i, pair.reduced), target, pair.held_out


def _through(stack: Stack, i: int, z: Tensor) -> Tensor:
    return stack.join(i, z, stack.put_out(i, stack.read(i, z)))
