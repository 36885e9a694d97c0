"""Mamba-2 layers made smaller from the measured moments of their gates and states (docs/method.md section 5.11).

projected   new states that lose least; two tensors more per layer make their gates (`aireprune.method.projection`)
fitted      states that the others can stand in for go (`aireprune.method.elimination`); the rows that make B and C
            are then fitted to the full layer (`aireprune.calibration.rows`). The layout stays what it was
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aireprune.arrays import Added, Edit, instead
from aireprune.errors import AireError
from aireprune.families import Found, Layer
from aireprune.families.mamba2 import PROJECTIONS, is_projected
from aireprune.method.elimination import elimination_losses
from aireprune.method.evidence import Evidence
from aireprune.method.projection import Projection, project, projection_scores
from aireprune.pruning.plan import Plan

if TYPE_CHECKING:
    from aireprune.calibration.inputs import Inputs
    from aireprune.calibration.subject import Subject


def require_heads(found: Found, reduce: str) -> None:
    """Raise unless every layer is a Mamba-2 layer all of which is known."""
    for layer in found.layers:
        if layer.family != "mamba2":
            raise AireError(
                f"reduce={reduce!r} is for Mamba-2, whose states share one decay per head; layer {layer.name} is "
                f"{layer.family}."
            )
        if layer.declared:
            raise AireError(
                f"Layer {layer.name} has tensors that no family knows ({', '.join(map(layer.relative, layer.declared))}), "
                f"so it cannot be reduced with reduce={reduce!r}."
            )


def selective_scores(found: Found, reduce: str, evidence: Evidence) -> list[np.ndarray]:
    """What the states of every layer are ranked by, (n,): of new states, or of those that there are."""
    rule = projection_scores if reduce == "projected" else elimination_losses
    return [rule(_moments(layer, number, reduce, evidence)).ravel() for number, layer in enumerate(found.layers)]


def check_sizes(plan: Plan) -> None:
    """Raise if a layer is to be projected onto nothing."""
    empty = next((layer for layer in plan.layers if not layer.kept), None)
    if empty is not None:
        raise AireError(
            f"Layer {empty.name} would keep no state, and reduce='projected' needs at least one per group: give "
            "min_states=1 or a smaller ratio."
        )


def projections(found: Found, plan: Plan, evidence: Evidence) -> dict[str, Projection]:
    """The projections of the layers that lose states, by name."""
    return {
        layer.name: project(_moments(layer, number, plan.reduce, evidence), len(mine.kept) // layer.groups)
        for number, (layer, mine) in enumerate(zip(found.layers, plan.layers, strict=True))
        if len(mine.kept) < layer.states
    }


def projecting_edits(found: Found, made: Mapping[str, Projection], sizes: Sequence[int]) -> dict[str, Edit]:
    """How the arrays of a model change. sizes: stored states per group; silent ones fill up."""
    edits: dict[str, Edit] = {}
    for layer, size in zip(found.layers, sizes, strict=True):
        if layer.name not in made:
            continue
        prefix = f"{layer.name}." if layer.name else ""
        for role, rows in zip(PROJECTIONS, (made[layer.name].b, made[layer.name].c), strict=True):
            filled = np.pad(rows, ((0, 0), (0, size - rows.shape[1]), (0, 0)))
            if is_projected(layer):  # a projection of a projection
                old = layer.read(found.arrays, role).reshape(layer.groups, -1, layer.options.values)
                edits[layer.arrays[role]] = instead(_as_stored(filled @ old))
            else:
                edits[f"{prefix}{role}"] = Added(_as_stored(filled), layer.arrays["in_proj.weight"])
    return edits


def projected_from(
    kind: str, layers: Sequence[Layer[Any]], edits: Mapping[str, Edit], sizes: Sequence[int]
) -> dict[str, Any]:
    """What a configuration says about projected layers: how many values of B, and of C, a group of each makes.

    In a Hugging Face folder that is one number where the layers agree.
    """
    new = [f"{layer.name}.{PROJECTIONS[0]}".lstrip(".") in edits for layer in layers]
    if not any(new) and not any(layer.family == "mamba2" and is_projected(layer) for layer in layers):
        return {}
    values = [
        layer.options.values if added or is_projected(layer) else size
        for layer, added, size in zip(layers, new, sizes, strict=True)
    ]
    return {"projected_from": values[0] if kind == "huggingface" and len(set(values)) == 1 else values}


def with_measured_errors(
    plan: Plan, made: Mapping[str, Projection], subject: Subject | None, inputs: Inputs | None
) -> Plan:
    """The plan with what every projection loses on held-out inputs."""
    if not made or subject is None or inputs is None:
        return plan
    from aireprune.calibration.projection import measured_errors

    errors = measured_errors(subject, inputs, made)
    return replace(plan, layers=tuple(replace(layer, measured_error=errors.get(layer.name)) for layer in plan.layers))


def _moments(layer: Layer[Any], number: int, reduce: str, evidence: Evidence) -> np.ndarray:
    n = layer.states // layer.groups
    found, shape = evidence.covariance(number), (2, layer.groups, n, n)
    if found is None:
        why = "its inside is not known, or it is not called" if evidence.covariances is not None else "none were given"
        raise AireError(
            f"reduce={reduce!r} needs unlabelled inputs (calibrate=) on which the gates of layer {layer.name} are "
            f"measured; {why}."
        )
    if found.shape != shape or not np.isfinite(found).all():
        raise AireError(f"The moments of layer {layer.name} have shape {found.shape}; expected finite ones, {shape}.")
    return found


def _as_stored(rows: np.ndarray) -> np.ndarray:
    """(G, N', N) as rows (G N', N) in single precision."""
    return np.ascontiguousarray(rows.reshape(-1, rows.shape[-1]), np.float32)
