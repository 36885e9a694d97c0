"""What became of the linear layers of a model: each before and after, the difference, and what is proved about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aireprune.certificates.audit import certify_layers, error_system
from aireprune.families import FAMILIES, Found, Layer, LTIFamily
from aireprune.method.bounds import certify
from aireprune.method.reductions import find_reduction
from aireprune.method.system import ModalSystem
from aireprune.pruning.layers import LARGEST, marks
from aireprune.pruning.plan import Plan

SEARCHED = 2**17  # modes times channels of a layer up to which the true norm of its error is searched for


@dataclass(frozen=True, kw_only=True)
class Change:
    """One layer. certificate: as `method.bounds.LayerCertificate` writes it; None if nothing is proved."""

    full: ModalSystem
    reduced: ModalSystem
    error: ModalSystem
    certificate: Mapping[str, Any] | None


def linear_system(found: Found, layer: Layer[Any]) -> ModalSystem | None:
    """The layer as a system, if it is a linear one, all of it is known, and it is stable and not too large."""
    family = FAMILIES[layer.family]
    if not isinstance(family, LTIFamily) or layer.declared:
        return None
    system = family.system(layer, found.arrays)
    return system if system.stable and 0 < system.modes <= LARGEST else None


def changes(full: Found, plan: Plan, pruned: Found | None) -> list[Change | None]:
    """Of every layer: as it is stored in the pruned model or, if there is none, as the plan would make it."""
    systems = [linear_system(full, layer) for layer in full.layers]
    search = all(system is None or _affordable(system) for system in systems)
    stored = {found["name"]: found for found in plan.certificate or ()}
    if pruned is not None and None not in systems:
        stored = {found.name: found.to_dict() for found in certify_layers(full, pruned, plan, search)}
    made: list[Change | None] = []
    for number, system in enumerate(systems):
        if system is None:
            made.append(None)
        elif pruned is None:
            made.append(_planned(full.layers[number], system, plan, number, search))
        else:
            made.append(_stored(full.layers[number], system, plan, number, pruned, stored))
    return made


def _planned(layer: Layer[Any], system: ModalSystem, plan: Plan, number: int, search: bool) -> Change:
    """The reduction that the plan asks for, without anything that was measured or fitted."""
    made = find_reduction(plan.reduce).reduce(system, _kept(layer, plan, number), None, plan.horizon)
    proved = certify(layer.name, made, search, plan.horizon).to_dict() if not plan.calibrated else None
    return Change(full=system, reduced=made.system, error=made.error, certificate=proved)


def _stored(
    layer: Layer[Any],
    system: ModalSystem,
    plan: Plan,
    number: int,
    pruned: Found,
    certificates: Mapping[str, Mapping[str, Any]],
) -> Change:
    family = FAMILIES[layer.family]
    assert isinstance(family, LTIFamily)
    small = family.system(pruned.layers[number], pruned.arrays)
    kept = _kept(layer, plan, number)
    renewed = plan.reduce == "balanced" and not kept.all()
    error = error_system(system, small, None if renewed else kept)
    name = plan.layers[number].name
    return Change(full=system, reduced=small, error=error, certificate=certificates.get(name))


def _kept(layer: Layer[Any], plan: Plan, number: int) -> Any:
    family = FAMILIES[layer.family]
    assert isinstance(family, LTIFamily)
    return marks(layer, family, plan.layers[number])


def _affordable(system: ModalSystem) -> bool:
    return system.modes * max(system.inputs, system.outputs) * system.directions <= SEARCHED
