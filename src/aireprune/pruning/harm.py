"""Layers that closed forms would destroy are refused before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aireprune.families import Layer
from aireprune.method.evidence import Evidence
from aireprune.pruning.fitting import remarks
from aireprune.pruning.layers import Unsuitable
from aireprune.pruning.plan import Plan
from aireprune.pruning.request import Job
from aireprune.pruning.surgery import Surgery

KEPT, LOST = 0.25, 0.95  # a layer that keeps such a share of its states does not lose such a share of its H2 norm


def check_damage(surgery: Surgery, plan: Plan, job: Job, evidence: Evidence) -> None:
    """Raise if closed-form balancing or refitting destroyed a layer, as it does to poles on the verge of instability."""
    if plan.reduce == "truncate" or job.force or evidence.covariances is not None:
        return
    for planned, reduction in zip(plan.layers, surgery.reductions, strict=True):
        if reduction is not None and 1 - planned.ratio >= KEPT and reduction.relative_error > LOST:
            raise Unsuitable(
                f"layer {planned.name} keeps {len(planned.kept)} of {planned.states} states, but reduce={plan.reduce!r} "
                f"would lose {reduction.relative_error:.0%} of it (H2 error; more than {LOST:.0%} is refused): its poles "
                "are too close to the unit circle",
                "Use reduce='truncate', or force=True to do it all the same.",
            )


def notes_on(plan: Plan, layers: Sequence[Layer[Any]]) -> tuple[str, ...]:
    """What went another way than planned in a layer, or than asked because of the target."""
    dead = [
        f"{layer.name}: its states put out nothing" for layer in plan.layers if layer.kept and not layer.energy_kept
    ]
    notes = [f"{layer['name']}: {note}" for layer in plan.certificate or () for note in layer["notes"]]
    return (*(f"{line}, so it does not matter which of them stay." for line in dead), *notes, *remarks(plan, layers))
