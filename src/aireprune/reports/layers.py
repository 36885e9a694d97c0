"""The layers of a model as a page shows them: poles, energies, scores, Hankel values, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aireprune.families import Found
from aireprune.method.criteria import WITH_HORIZON
from aireprune.method.decision import Scoring, energies, score_states
from aireprune.method.methods import METHODS, find_method
from aireprune.method.states import LayerStates
from aireprune.method.system import ModalSystem
from aireprune.pruning.plan import Plan
from aireprune.pruning.planning import layer_hankel_scores
from aireprune.reports.changes import Change, changes, linear_system
from aireprune.reports.document import Choice, LayerView, Poles
from aireprune.reports.responses import responses

DATA_FREE = tuple(name for name, method in METHODS.items() if not method.measured)


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What is to be seen: the full model, what it became and by which plan, as far as these are there.

    methods: whose scores are shown. horizon, seed: of these scores, as in a plan.
    """

    full: Found
    plan: Plan | None = None
    pruned: Found | None = None
    methods: tuple[str, ...] = ("aire",)
    horizon: int | None = None
    seed: int = 0


def view_layers(sight: Sight) -> tuple[LayerView, ...]:
    """Every layer of the full model."""
    states = sight.full.states()
    held, scores = energies(states), _scores(states, sight)
    views = [
        LayerView(
            name=layer.name,
            family=layer.family,
            states=layer.states,
            counted=int((~of_layer.silent).sum()),
            groups=layer.groups,
            rows=layer.rows,
            modes=of_layer.log_radius.shape[1],
            poles=slowest_poles(of_layer),
            energy=held[number],
            scores={criterion: found[number] for criterion, found in scores.items()},
            hankel=hankel(sight.full, number, sight.horizon),
        )
        for number, (layer, of_layer) in enumerate(zip(sight.full.layers, states, strict=True))
    ]
    if sight.plan is None:
        return tuple(views)
    found = changes(sight.full, sight.plan, sight.pruned)
    return tuple(_with_plan(view, sight.plan, number, found[number]) for number, view in enumerate(views))


def choices(names: Sequence[str]) -> tuple[Choice, ...]:
    """The methods as the page lists them."""
    return tuple(
        Choice(name=m.name, criterion=m.criterion, prefix=m.prefix, scope=m.scope, summary=m.summary)
        for m in map(find_method, names)
    )


def plan_template(plan: Plan) -> dict[str, Any]:
    """The plan as plan.json has it but for what each layer keeps, which the page has elsewhere or decides itself."""
    layers = tuple(replace(layer, kept=(), energy_kept=0.0) for layer in plan.layers)
    return replace(plan, layers=layers, certificate=None).to_dict()


def hankel(found: Found, number: int, horizon: int | None = None) -> np.ndarray | None:
    """What balanced truncation would rank the states of a layer by; None where that cannot be said. (n,)"""
    layer = found.layers[number]
    if linear_system(found, layer) is None:
        return None
    return layer_hankel_scores(replace(found, layers=[layer]), horizon)[0]


def slowest_poles(states: LayerStates) -> Poles:
    """Of every state, the pole that decays last."""
    slowest = states.log_radius.argmax(axis=1)[:, None] if states.log_radius.size else np.zeros((len(states), 0), int)
    return _poles(
        np.take_along_axis(states.log_radius, slowest, 1).ravel(),
        np.take_along_axis(np.asarray(states.angle), slowest, 1).ravel(),
    )


def _scores(states: Sequence[LayerStates], sight: Sight) -> Mapping[str, list[np.ndarray]]:
    """Raw scores of every layer, by criterion; energies are in the view already, unless a horizon changes them."""
    found: dict[str, list[np.ndarray]] = {}
    for name in sight.methods:
        criterion = find_method(name).criterion
        horizon = sight.horizon if criterion in WITH_HORIZON else None
        if criterion not in found and (criterion, horizon) != ("energy", None):
            found[criterion] = score_states(states, Scoring(method=name, horizon=horizon, seed=sight.seed))
    return found


def _with_plan(view: LayerView, plan: Plan, number: int, change: Change | None) -> LayerView:
    """The view of a layer with what the plan, or the model that was made by it, says about it."""
    view = replace(view, kept=np.array(plan.layers[number].kept, np.uint32))
    if change is None:
        return view
    renewed = plan.reduce == "balanced" and len(plan.layers[number].kept) < view.states
    return replace(
        view,
        certificate=change.certificate,
        after=_audible_poles(change.reduced) if renewed else None,
        response=responses(change.full, change.reduced, change.error),
    )


def _audible_poles(system: ModalSystem) -> Poles:
    there = system.audible()
    return _poles(system.log_radius[there], system.angle[there])


def _poles(log_radius: np.ndarray, angle: np.ndarray) -> Poles:
    with np.errstate(over="ignore"):  # a state that forgets at once
        return Poles(log_radius=log_radius.astype(np.float32), angle=angle.astype(np.float32))
