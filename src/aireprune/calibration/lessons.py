"""Inputs to learn from, in a new order on every pass, and inputs that are kept aside to judge what was learnt."""

from __future__ import annotations

import numpy as np
import torch

from aireprune.calibration.calls import Call
from aireprune.calibration.inputs import BATCH_TOKENS, HELD_OUT, ArrayInputs, Inputs
from aireprune.errors import AireError

BATCH = 16  # sequences of a step at most
JUDGES = 32  # batches that are kept aside at most


class Lessons:
    """Batches by the number of a step, each a function of that number and the seed alone.

    What is shuffled are the sequences of an array, or pieces of the batches that were given. One in HELD_OUT of them is
    kept aside, up to JUDGES batches, spread over all. From the second pass on, sequences of real numbers are not repeated
    but mixed, two at a time in random shares: a few hundred would be learnt by heart.
    """

    def __init__(self, inputs: Inputs, seed: int = 0):
        self.seed = seed
        self._values = inputs.values if isinstance(inputs, ArrayInputs) else None
        self._pieces = [] if isinstance(inputs, ArrayInputs) else _pieces(inputs)
        self._at_once = min(BATCH, inputs.batch) if isinstance(inputs, ArrayInputs) else 1
        units = len(self._pieces) or len(inputs)
        if units < HELD_OUT:
            raise AireError(
                "Recovery learns from some inputs and is judged on others, so it needs some dozens of sequences; got "
                f"{len(inputs)}."
            )
        count = max(1, min(units // HELD_OUT, JUDGES * self._at_once))
        aside = np.linspace(0, units - 1, count).round().astype(int)
        self._learnt = np.setdiff1d(np.arange(units), aside)
        self.judges = [self._call(part) for part in np.array_split(aside, -(-count // self._at_once))]

    @property
    def steps_in_a_pass(self) -> int:
        return len(self._learnt) // self._at_once

    def __getitem__(self, step: int) -> Call:
        number, place = divmod(step, self.steps_in_a_pass)
        order = np.random.default_rng((self.seed, number)).permutation(self._learnt)
        units = order[place * self._at_once : (place + 1) * self._at_once]
        if number and self._values is not None and np.issubdtype(self._values.dtype, np.floating):
            return self._mixed(units, np.random.default_rng((self.seed, number, place)))
        return self._call(units)

    def _mixed(self, units: np.ndarray, rng: np.random.Generator) -> Call:
        assert self._values is not None
        one, other = self._values[units], self._values[rng.choice(self._learnt, len(units))]
        share = rng.random((len(units), *[1] * (one.ndim - 1))).astype(one.dtype)
        return Call((torch.from_numpy(other + share * (one - other)),))

    def _call(self, units: np.ndarray) -> Call:
        if self._values is None:
            return self._pieces[units[0]]
        return Call((torch.from_numpy(self._values[units]),))


def _pieces(inputs: Inputs) -> list[Call]:
    """Batches that were given, cut into pieces of at most BATCH sequences and BATCH_TOKENS steps in time."""
    pieces = []
    for number in range(inputs.batches):
        call = inputs[number]
        rows, length = len(call.first), call.first.shape[1] if call.first.ndim > 1 else 1
        size = max(1, min(BATCH, BATCH_TOKENS // max(length, 1)))
        pieces += [call.rows(slice(start, start + size)) for start in range(0, rows, size)]
    return pieces
