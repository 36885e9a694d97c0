"""Linear, time-invariant layers made smaller: refit or balanced (docs/method.md section 5), in the layout they had.

A plan says how many states of a layer stay and, for refit, which. The layer is read as a `ModalSystem`, reduced, and
stored again; then the stored arrays are read back, in the precision of the file, and the exact H2 distance to the full
layer is compared with what the reduction promised. Nothing is handed out if it is larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aireprune.arrays import Edit, Replaced, instead
from aireprune.errors import AireError
from aireprune.families import FAMILIES, Found, Layer, LTIFamily, lti_family
from aireprune.families.storing import is_bfloat16, to_bfloat16
from aireprune.method.evidence import Evidence
from aireprune.method.gramians import distance_energy
from aireprune.method.reductions import Reduction, find_reduction, truncate
from aireprune.method.system import SILENT, ModalSystem
from aireprune.pruning.plan import LayerPlan, Plan

TOLERANCE = 1e-2  # of the layer's H2 norm: what rounding the stored parameters may add to the error
LARGEST = 1024  # modes of one system up to which plain pruning is accounted for exactly (Gramians grow as n^2)


class Unsuitable(AireError):
    """A layer that a reduction cannot be applied to, though plain removal can."""

    def __init__(self, reason: str, advice: str):
        super().__init__(f"{reason[0].upper()}{reason[1:]}. Nothing was written. {advice}")
        self.reason = reason


@dataclass(frozen=True)
class ReducedLayer:
    """A smaller layer: how its arrays change, and what the reduction costs."""

    edits: Mapping[str, Edit]
    reduction: Reduction


def reduced_layers(
    found: Found, plan: Plan, evidence: Evidence, planned_sizes: Sequence[int]
) -> tuple[list[int], list[ReducedLayer]]:
    """The stored size of every layer, and every layer reduced as the plan says."""
    reductions = [_reduce(found, plan, number, evidence.covariance(number)) for number in range(len(plan.layers))]
    sizes = _sizes(plan, reductions, planned_sizes)
    layers = []
    for layer, mine, reduction, size in zip(found.layers, plan.layers, reductions, sizes, strict=True):
        new: dict[str, np.ndarray] = {}
        if len(mine.kept) < layer.states:
            new = _stored(found, layer, mine, reduction, size)
            _check(
                read_system(found, layer, _as_stored(found, layer, new), size), found, layer, reduction, plan.horizon
            )
        layers.append(ReducedLayer({name: instead(values) for name, values in new.items()}, reduction))
    return sizes, layers


def account(found: Found, plan: Plan, number: int) -> Reduction | None:
    """What plain pruning does to a layer, where that can be said."""
    layer, planned = found.layers[number], plan.layers[number]
    family = FAMILIES[layer.family]
    if not isinstance(family, LTIFamily) or layer.declared:
        return None
    system = family.system(layer, found.arrays)
    if not system.stable or system.modes > LARGEST:
        return None
    return truncate(system, marks(layer, family, planned), plan.horizon)


def marks(layer: Layer[Any], family: LTIFamily[Any], planned: LayerPlan) -> np.ndarray:
    """The stored modes that belong to kept states. (*batch, n) of bool"""
    kept = np.zeros(layer.states, bool)
    kept[np.array(planned.kept, int)] = True
    return np.asarray(kept[family.members(layer)])


def read_system(found: Found, layer: Layer[Any], new: Mapping[str, np.ndarray], size: int) -> ModalSystem:
    """The system that a layer is once some of its arrays are new and hold `size` modes (per channel)."""
    family = lti_family(layer, "this")
    return family.system(family.resized(layer, size), Replaced(found.arrays, new))


def _as_stored(found: Found, layer: Layer[Any], new: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """New arrays as the file will hold them: bfloat16 is handed out as float32, and rounded when it is written."""
    half = is_bfloat16([np.asarray(found.arrays[name]) for name in layer.arrays.values()])
    return {name: to_bfloat16(values) for name, values in new.items()} if half else new


def _check(
    stored: ModalSystem, found: Found, layer: Layer[Any], promised: Reduction, horizon: int | None = None
) -> None:
    """Raise if the layer that was stored is further from the full one than was promised."""
    full = lti_family(layer, promised.method).system(layer, found.arrays)
    energy, error = float(promised.energy.sum()), float(promised.error_energy.sum())
    actual = float(distance_energy(full, stored, horizon).sum()) if stored.stable else np.inf
    if not actual**0.5 <= error**0.5 + TOLERANCE * energy**0.5:
        raise Unsuitable(
            f"layer {layer.name}: in the precision of this checkpoint the reduced layer would be off by "
            f"{(actual / energy) ** 0.5:.2e} of its H2 norm, instead of {(error / energy) ** 0.5:.2e}",
            "Store the checkpoint in a higher precision, or use reduce='truncate'.",
        )


def _reduce(found: Found, plan: Plan, number: int, covariance: np.ndarray | None) -> Reduction:
    layer, planned = found.layers[number], plan.layers[number]
    family = lti_family(layer, f"reduce={plan.reduce!r}", "Use reduce='truncate'.")
    system, kept = family.system(layer, found.arrays), marks(layer, family, planned)
    return find_reduction(plan.reduce).reduce(system, kept, covariance, plan.horizon)


def _stored(
    found: Found, layer: Layer[Any], planned: LayerPlan, reduction: Reduction, size: int
) -> dict[str, np.ndarray]:
    """The new arrays: old modes with a new readout, cut as in plain pruning, or new modes in the family's layout."""
    family = lti_family(layer, reduction.method)
    if reduction.kept is None:
        return family.store(layer, found.arrays, _resized(reduction.system, size))
    c = family.system(layer, found.arrays).c - reduction.error.c
    changed, kept = Replaced(found.arrays, family.readout(layer, found.arrays, c)), np.array(planned.kept, int)
    return {name: cut.remove(np.asarray(changed[name]), kept, size) for name, cut in family.cuts(layer).items()}


def _sizes(plan: Plan, reductions: Sequence[Reduction], planned: Sequence[int]) -> list[int]:
    """Stored sizes: as planned where they are to be equal, else as many as came out, rounded up like the plan."""
    if plan.layout != "adaptive" or plan.reduce == "refit":
        return list(planned)
    step = plan.round_to
    return [
        min(-(-int(reduction.order.max(initial=0)) // step) * step, size) if len(mine.kept) < mine.states else size
        for reduction, size, mine in zip(reductions, planned, plan.layers, strict=True)
    ]


def _resized(system: ModalSystem, size: int) -> ModalSystem:
    """The leading `size` modes, or silent ones at the end."""
    system = system.take(np.arange(min(size, system.modes)))
    missing = size - system.modes

    def fill(values: np.ndarray, axis: int, with_: float = 0.0) -> np.ndarray:
        width = [(0, 0)] * values.ndim
        width[axis] = (0, missing)
        return np.pad(values, width, constant_values=with_)

    return ModalSystem(
        fill(system.log_radius, -1, SILENT), fill(system.angle, -1), fill(system.b, -2), fill(system.c, -1), system.conj
    )
