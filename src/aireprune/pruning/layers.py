"""From a plan to smaller layers: truncate, refit or balanced (docs/method.md section 5), stored in the layout they had.

A plan says how many states of a layer stay and, for truncate and refit, which. The layer is read as a `ModalSystem`,
reduced, and stored again; then the stored arrays are read back, in the precision of the file, and the exact H2 distance
to the full layer is compared with what the reduction promised. Nothing is handed out if it is larger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from aireprune.errors import AireError
from aireprune.families import FAMILIES
from aireprune.families.base import Layer, LTIFamily, NamedArrays, Shape
from aireprune.families.storing import is_bfloat16, to_bfloat16
from aireprune.method.bounds import certify
from aireprune.method.gramians import distance_energy
from aireprune.method.reductions import Reduction, balanced, hankel_scores, refit, truncate
from aireprune.method.system import SILENT, ModalSystem
from aireprune.method.threads import single_threaded
from aireprune.pruning.plan import LayerPlan, Plan
from aireprune.pruning.source import Source
from aireprune.pruning.surgery import edits, padding, stored_sizes

Edit = Callable[[np.ndarray], np.ndarray]

TOLERANCE = 1e-2  # of the layer's H2 norm: what rounding the stored parameters may add to the error
LARGEST = 1024  # modes of one system up to which plain pruning is accounted for exactly (Gramians grow as n^2)


@dataclass(frozen=True)
class Reduced:
    """Smaller layers, as edits of named arrays."""

    edits: dict[str, Edit]
    sizes: list[int]  # states (per group or channel) that the arrays of each layer then hold
    reductions: list[Reduction | None]  # None: selective, unstable or too large to account for


class Replaced:
    """Named arrays some of which are new."""

    def __init__(self, arrays: NamedArrays, new: Mapping[str, np.ndarray]):
        self._arrays, self._new = arrays, new
        self.shapes: Mapping[str, Shape] = {**arrays.shapes, **{name: values.shape for name, values in new.items()}}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._new[name] if name in self._new else self._arrays[name]


def lti_family(layer: Layer, why: str) -> LTIFamily:
    """The family of a layer, if it is linear and time-invariant."""
    family = FAMILIES[layer.family]
    if not isinstance(family, LTIFamily):
        raise AireError(
            f"Layer {layer.name} is selective ({layer.family}): its input and output matrices change at every step, so "
            f"it has no Gramians, which {why} needs." + " Use --reduce truncate." * why.startswith("--reduce")
        )
    return family


def layer_hankel_scores(
    source: Source, horizon: int | None = None, covariances: Sequence[np.ndarray | None] | None = None
) -> list[np.ndarray]:
    """Squared Hankel singular values of every removable state of every layer, what balanced truncation ranks by.

    covariances: measured ones of the real states (Re x, Im x) per layer, (*batch, 2n, 2n), in place of closed-form P.
    """
    scores = []
    for number, layer in enumerate(source.layers):
        family = lti_family(layer, "--reduce balanced")
        system = family.system(layer, source.arrays)
        values = hankel_scores(system, covariances[number] if covariances else None, horizon)
        scores.append(np.bincount(family.members(layer).ravel(), values.ravel(), minlength=layer.states))
    return scores


@single_threaded
def reduce_layers(source: Source, plan: Plan, covariances: Sequence[np.ndarray | None] | None = None) -> Reduced:
    """Every layer of the source reduced as the plan says.

    covariances: measured ones of the real states, per layer; balancing and refitting use them in place of P.
    """
    if plan.reduce == "truncate":
        cut = edits(source.layers, plan, sizes=padding(source.layers, plan))
        accounts = [_account(source, plan, number) for number in range(len(plan.layers))]
        return Reduced(cut, stored_sizes(source.layers, plan), accounts)
    done = [
        _reduce(source, plan, number, covariances[number] if covariances else None)
        for number in range(len(plan.layers))
    ]
    sizes = _sizes(source.layers, plan, [found for found, _ in done])
    todo: dict[str, Edit] = {}
    for layer, planned, (found, c), size in zip(source.layers, plan.layers, done, sizes, strict=True):
        if len(planned.kept) == layer.states:
            continue
        family = lti_family(layer, f"--reduce {plan.reduce}")
        if c is not None:
            changed = Replaced(source.arrays, family.readout(layer, source.arrays, c))
            kept = np.array(planned.kept, int)
            new = {name: cut.remove(np.asarray(changed[name]), kept, size) for name, cut in family.cuts(layer).items()}
        else:
            new = family.store(layer, source.arrays, _resized(found.system, size))
        check(source, layer, new, found, plan.horizon)
        todo |= {name: partial(_instead, values) for name, values in new.items()}
    return Reduced(todo, sizes, [found for found, _ in done])


def certified(plan: Plan, reduced: Reduced) -> Plan:
    """The plan with the bounds and exact errors of its layers. The true norms are for `aire certify` to search for."""
    found = [
        certify(planned.name, reduction, hinf=False).to_dict()
        for planned, reduction in zip(plan.layers, reduced.reductions, strict=True)
        if reduction is not None
    ]
    return replace(plan, certificate=tuple(found) or None)


def marks(layer: Layer, family: LTIFamily, planned: LayerPlan) -> np.ndarray:
    """The stored modes that belong to kept states. (*batch, n) of bool"""
    kept = np.zeros(layer.states, bool)
    kept[np.array(planned.kept, int)] = True
    return np.asarray(kept[family.members(layer)])


def check(
    source: Source, layer: Layer, new: Mapping[str, np.ndarray], promised: Reduction, horizon: int | None = None
) -> None:
    """Read the new arrays back and raise if the layer they hold is further from the full one than was promised."""
    family = lti_family(layer, promised.method)
    half = is_bfloat16([np.asarray(source.arrays[name]) for name in layer.arrays.values()])
    stored = read_system(source, layer, {name: to_bfloat16(values) for name, values in new.items()} if half else new)
    full = family.system(layer, source.arrays)
    energy, error = float(promised.energy.sum()), float(promised.error_energy.sum())
    actual = float(distance_energy(full, stored, horizon).sum()) if stored.stable else np.inf
    if not actual**0.5 <= error**0.5 + TOLERANCE * energy**0.5:
        raise AireError(
            f"Layer {layer.name}: in the precision of this checkpoint the reduced layer would be off by "
            f"{(actual / energy) ** 0.5:.2e} of its H2 norm, instead of {(error / energy) ** 0.5:.2e}. Nothing was "
            "written. Store the checkpoint in a higher precision, or use --reduce truncate."
        )


def read_system(source: Source, layer: Layer, new: Mapping[str, np.ndarray]) -> ModalSystem:
    """The system that a layer of the source is once some of its arrays are new."""
    family = lti_family(layer, "this")
    view = Replaced(source.arrays, new)
    shapes = {name: view.shapes[name] for name in layer.arrays.values()}
    (changed,) = family.find(shapes, source.config)
    return family.system(replace(changed, options={**changed.options, **_fixed(layer)}), view)


def _fixed(layer: Layer) -> dict[str, int]:
    """Options that shapes do not show once a layer has no states left."""
    return {key: layer.options[key] for key in ("directions",) if key in layer.options}


def _account(source: Source, plan: Plan, number: int) -> Reduction | None:
    """What plain pruning does to a layer, where that can be said."""
    layer, planned = source.layers[number], plan.layers[number]
    family = FAMILIES[layer.family]
    if not isinstance(family, LTIFamily):
        return None
    system = family.system(layer, source.arrays)
    if not system.stable or system.modes > LARGEST:
        return None
    return truncate(system, marks(layer, family, planned), plan.horizon)


def _reduce(
    source: Source, plan: Plan, number: int, covariance: np.ndarray | None
) -> tuple[Reduction, np.ndarray | None]:
    """The reduced layer; for refit also the readout (*batch, d, o, n) of all its old modes."""
    layer, planned = source.layers[number], plan.layers[number]
    family = lti_family(layer, f"--reduce {plan.reduce}")
    system, kept = family.system(layer, source.arrays), marks(layer, family, planned)
    if plan.reduce == "balanced":
        return balanced(system, kept.sum(-1), covariance, plan.horizon), None
    found = refit(system, kept, covariance, plan.horizon)
    return found, system.c - found.error.c


def _sizes(layers: Sequence[Layer], plan: Plan, found: Sequence[Reduction]) -> list[int]:
    """Stored sizes: as planned where they are to be equal, else as many as came out, rounded up like the plan."""
    planned = stored_sizes(layers, plan)
    if plan.layout != "adaptive" or plan.reduce == "refit":
        return planned
    step = plan.round_to
    return [
        min(-(-int(reduction.order.max(initial=0)) // step) * step, size) if len(kept.kept) < kept.states else size
        for reduction, size, kept in zip(found, planned, plan.layers, strict=True)
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


def _instead(values: np.ndarray, old: np.ndarray) -> np.ndarray:
    return values
