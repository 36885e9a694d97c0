"""From a plan to edits of named arrays: silence states, take them out, or take them out and fill up. Pure NumPy.

Plain pruning (`truncate`) works in every family and needs nothing but its cuts. Reductions of linear, time-invariant
layers are in `aireprune.pruning.layers`, those of Mamba-2 in `aireprune.pruning.selective`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from aireprune.arrays import Edit
from aireprune.errors import AireError
from aireprune.families import FAMILIES, Found, Layer
from aireprune.method.bounds import certify
from aireprune.method.evidence import Evidence
from aireprune.method.projection import Projection
from aireprune.method.reductions import Reduction, find_reduction
from aireprune.method.threads import single_threaded
from aireprune.pruning.layers import account, reduced_layers
from aireprune.pruning.plan import Plan
from aireprune.pruning.selective import check_sizes, projecting_edits, projections


@dataclass(frozen=True)
class Surgery:
    """What is done to named arrays.

    edits: by full name; arrays that keep their values are not named. sizes: the states (per group or channel) that the
    arrays of each layer hold afterwards. reductions: what became of each layer, None where that cannot be said
    (selective, unstable or too large). projections: of projected layers, by name.
    """

    edits: Mapping[str, Edit]
    sizes: Sequence[int]
    reductions: Sequence[Reduction | None]
    projections: Mapping[str, Projection] = field(default_factory=dict)

    def certified(self, plan: Plan) -> Plan:
        """The plan with bounds and exact errors of its layers. The true norms are for `aire certify` to search for."""
        found = [
            certify(planned.name, reduction, hinf=False, horizon=plan.horizon).to_dict()
            for planned, reduction in zip(plan.layers, self.reductions, strict=True)
            if reduction is not None
        ]
        return replace(plan, certificate=tuple(found) or None)


@single_threaded
def operate(
    found: Found, plan: Plan, evidence: Evidence | None = None, mask: bool = False, accounted: bool = True
) -> Surgery:
    """The surgery that a plan asks for. mask: states are silenced instead of taken out. accounted: also say what
    becomes of each layer, without which nothing is certified or found to be destroyed."""
    check_groups(found.layers, plan)
    if plan.reduce == "projected":
        return _projected(found, plan, evidence or Evidence())
    if not find_reduction(plan.reduce).selective and plan.reduce != "truncate":
        sizes, done = reduced_layers(found, plan, evidence or Evidence(), stored_sizes(found.layers, plan))
        edits = {name: edit for layer in done for name, edit in layer.edits.items()}
        return Surgery(edits, sizes, [layer.reduction if accounted else None for layer in done])
    sizes = stored_sizes(found.layers, plan, mask)
    accounts = [account(found, plan, number) if accounted else None for number in range(len(plan.layers))]
    edits = _masks(found.layers, plan) if mask else _removals(found.layers, plan, sizes)
    return Surgery(edits, sizes, accounts)


def _projected(found: Found, plan: Plan, evidence: Evidence) -> Surgery:
    check_sizes(plan)
    made, sizes = projections(found, plan, evidence), stored_sizes(found.layers, plan)
    return Surgery(projecting_edits(found, made, sizes), sizes, [None] * len(sizes), made)


def stored_sizes(layers: Sequence[Layer[Any]], plan: Plan, mask: bool = False) -> list[int]:
    """States (per group or channel) that each layer's arrays hold afterwards; a padded layout has one size for all."""
    sizes = []
    for layer, planned in zip(layers, plan.layers, strict=True):
        kept = np.arange(layer.states) if mask else np.array(planned.kept, int)
        sizes.append(FAMILIES[layer.family].stored(layer, kept))
    return [max(sizes, default=0)] * len(sizes) if plan.layout == "padded" and not mask else sizes


def check_groups(layers: Sequence[Layer[Any]], plan: Plan) -> None:
    """Raise unless every group of each layer keeps equally many states."""
    for layer, planned in zip(layers, plan.layers, strict=True):
        size = max(layer.states // layer.groups, 1)
        counts = np.bincount(np.asarray(planned.kept, int) // size, minlength=layer.groups)
        if len(set(counts.tolist())) > 1:
            raise AireError(
                f"Layer {layer.name} has {layer.groups} groups of states, of which equally many must stay; the plan "
                f"keeps {', '.join(map(str, counts))}."
            )


def _masks(layers: Sequence[Layer[Any]], plan: Plan) -> dict[str, Edit]:
    return {
        name: partial(cut.mask, kept=kept)
        for layer, kept in _changed(layers, plan)
        for name, cut in FAMILIES[layer.family].cuts(layer).items()
    }


def _removals(layers: Sequence[Layer[Any]], plan: Plan, sizes: Sequence[int]) -> dict[str, Edit]:
    """States taken out; filled up where the layout asks for it, or where a family cannot run without any."""
    wanted = {layer.name: size for layer, size in zip(layers, sizes, strict=True)}
    edits: dict[str, Edit] = {}
    for layer, kept in _changed(layers, plan):
        size = wanted[layer.name] if plan.layout == "padded" or not len(kept) else None
        for name, cut in FAMILIES[layer.family].cuts(layer).items():
            edits[name] = partial(cut.remove, kept=kept, size=size)
    return edits


def _changed(layers: Sequence[Layer[Any]], plan: Plan) -> list[tuple[Layer[Any], np.ndarray]]:
    """The layers that lose states, and what they keep."""
    pairs = zip(layers, plan.layers, strict=True)
    return [(layer, np.array(mine.kept, int)) for layer, mine in pairs if len(mine.kept) < layer.states]
