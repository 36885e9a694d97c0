"""What states cost: parameters, the memory that every sequence needs for them, and operations per step.

Operations are counted, not timed: one multiplication for every entry of a matrix or filter that a step goes through, and
for every number that states carry the four of lam x + b u and c x. Tables of embeddings are looked up, not multiplied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any

from aireprune.families import FAMILIES, Found, Layer
from aireprune.pruning.plan import Plan

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # of batch norms: stored, but not parameters
EMBEDDING = re.compile(r"embed|(^|\.)wte\.")
HEAD = re.compile(r"(^|\.)(lm_head|head|decoder|output)\.")
BYTES = 4  # of a number in a state, which runs in single precision
PER_NUMBER = 4  # operations per step for a real number that a state carries


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Of a whole model, and of what belongs to its states; before and after pruning.

    parameters: entries of tensors. memory: bytes that the states of one sequence take. operations: per step.
    """

    parameters: int
    state_parameters: int
    operations: int
    state_operations: int
    memory: tuple[int, int]
    saved_operations: int

    @property
    def parameter_share(self) -> float:
        """Share of the parameters that belongs to states."""
        return self.state_parameters / max(self.parameters, 1)

    @property
    def operation_share(self) -> float:
        """Share of the operations that belongs to states."""
        return self.state_operations / max(self.operations, 1)

    @property
    def speedup(self) -> float:
        """How many times fewer operations there are after pruning."""
        return self.operations / max(self.operations - self.saved_operations, 1)


def costs(found: Found, plan: Plan) -> Costs:
    """The costs of a model that a plan is applied to."""
    shapes = found.arrays.shapes
    entries = {
        name: cut.entries(shapes[name])
        for layer in found.layers
        for name, cut in FAMILIES[layer.family].cuts(layer).items()
    }
    before = after = saved = of_states = 0
    for layer, states, planned in zip(found.layers, found.states(), plan.layers, strict=True):
        numbers = layer.states * states.log_radius.shape[1] * len(states.c2) * layer.carried
        kept = len(planned.kept) / max(layer.states, 1)
        before, after = before + numbers, after + round(numbers * kept)
        cuts = FAMILIES[layer.family].cuts(layer)
        scanned, made = PER_NUMBER * numbers, sum(entries[name] for name in cuts if len(shapes[name]) > 1)
        of_states += scanned + made
        if plan.reduce == "projected":  # B and C are made as before, and then multiplied with two matrices
            saved += round(scanned * (1 - kept)) - _projecting(layer, len(planned.kept))
        else:
            saved += round((scanned + made) * (1 - kept))
    others = sum(prod(shapes[name]) - entries.get(name, 0) for name in _multiplied(found))
    return Costs(
        parameters=sum(prod(shape) for name, shape in shapes.items() if is_parameter(name)),
        state_parameters=sum(entries.values()),
        operations=of_states + others,
        state_operations=of_states,
        memory=(BYTES * before, BYTES * after),
        saved_operations=saved,
    )


def _projecting(layer: Layer[Any], kept: int) -> int:
    """Multiplications per step that a projection onto so many states takes."""
    return 2 * layer.options.values * kept if kept < layer.states else 0


def is_parameter(name: str) -> bool:
    """Whether a tensor is one that is trained, as opposed to the statistics of a norm."""
    return not name.endswith(STATISTICS) and not name.startswith("batch_stats.")


def _multiplied(found: Found) -> list[str]:
    """The tensors that every step is multiplied with. A table of embeddings is one where it is the head as well."""
    shapes = found.arrays.shapes
    tied = not any(HEAD.search(name) for name in shapes)
    return [
        name
        for name, shape in shapes.items()
        if len(shape) > 1 and is_parameter(name) and (tied or not EMBEDDING.search(name))
    ]
