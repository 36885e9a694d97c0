"""The document of a page whose plan can be changed: scores for every method, and what a change costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import numpy as np

from aireprune.errors import AireError, did_you_mean
from aireprune.families import StateAxes
from aireprune.method.criteria import WITH_HORIZON
from aireprune.method.methods import find_method
from aireprune.method.selection import Budget
from aireprune.pruning.plan import Plan, check_layout
from aireprune.pruning.planning import make_plan
from aireprune.pruning.repeating import command
from aireprune.pruning.request import Job, Request
from aireprune.pruning.rows import with_short_rows
from aireprune.pruning.source import FileSource
from aireprune.reports import facts
from aireprune.reports.changes import linear_system
from aireprune.reports.document import Document, LayerView, ModelView
from aireprune.reports.gather import subtitle
from aireprune.reports.layers import DATA_FREE, Sight, choices, plan_template, view_layers
from aireprune.reports.making import made
from aireprune.reports.page import LARGEST, page_bytes
from aireprune.reports.responses import coupling
from aireprune.reports.sizes import per_size, size_of
from aireprune.reports.subject import AnySource

RATIO = 0.5  # that the page starts with
CHARACTERS = 4 / 3  # of base64 per byte
SPARED = 60_000  # bytes for names and everything else that is not an array
# what is left out first where a model has so many states that not everything fits
DISPENSABLE = ("energy-published", "peak-published", "pair-energy", "random", "magnitude", "peak")


class ExploreChoices(TypedDict, total=False):
    """Keyword arguments of `aireprune.explore` besides the ratio, as `aireprune.plan` has them."""

    horizon: int | None
    seed: int
    unstable: str
    layout: str
    granularity: str
    state_axis: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """How the model is opened, and where the page starts; the fields are those of `pruning.request.Request`."""

    ratio: float = RATIO
    horizon: int | None = None
    seed: int = 0
    unstable: str = "refuse"
    layout: str = "adaptive"
    granularity: str = "mode"
    state_axes: StateAxes = field(default_factory=StateAxes)

    def __post_init__(self) -> None:
        check_layout(self.layout)

    def request(self) -> Request:
        return Request(
            budget=Budget(ratio=self.ratio),
            method="aire",
            reduce="truncate",
            horizon=self.horizon,
            seed=self.seed,
            unstable=self.unstable,
            layout=self.layout,
            granularity=self.granularity,
            state_axes=self.state_axes,
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that go with the horizon."""
        if self.horizon is None:
            return DATA_FREE
        return tuple(name for name in DATA_FREE if find_method(name).criterion in WITH_HORIZON)


def make_exploration(ratio: float, choices: ExploreChoices) -> Exploration:
    """What keyword arguments ask for."""
    unknown = sorted(set(choices) - ExploreChoices.__optional_keys__)
    if unknown:
        known = sorted(ExploreChoices.__optional_keys__)
        raise AireError(
            f"There is no argument {unknown[0]}=.{did_you_mean(unknown[0], known)} Arguments: {', '.join(known)}."
        )
    values: dict[str, Any] = {name: value for name, value in choices.items() if name != "state_axis"}
    return Exploration(ratio=ratio, state_axes=StateAxes.parse(choices.get("state_axis", ())), **values)


def exploration_document(source: AnySource, wanted: Exploration) -> Document:
    """The document of the page. A plan that cannot be made of this model is refused here."""
    request = wanted.request()
    if isinstance(source, FileSource):
        request = with_short_rows(Job(request=request), source).request or request
    plan = make_plan(source, request, source=source.origin)
    methods = wanted.methods
    sight = Sight(full=source, methods=methods, horizon=wanted.horizon, seed=wanted.seed)
    layers = view_layers(sight)
    layers, methods = _fitting(layers, methods)
    size = size_of(source)
    return Document(
        title=source.name.rpartition("/")[2] or source.name,
        subtitle=subtitle(source.name, layers),
        verdict=facts.verdict_of_model(layers),
        facts=(facts.state_fact(None, layers), *facts.size_facts(size, None)),
        making=made([command(["explore", source.name], _options(wanted))], None, _told(plan)),
        model=ModelView(
            name=source.name,
            layers=_coupled(source, layers, wanted.horizon),
            methods=choices(methods),
            plan=plan_template(plan),
            packed=not (isinstance(source, FileSource) and source.rectangular),
            short_rows=request.short_rows,
            parameters=size.parameters,
        ),
        notices=source.notices,
        explore=True,
    )


def _fitting(layers: tuple[LayerView, ...], methods: Sequence[str]) -> tuple[tuple[LayerView, ...], tuple[str, ...]]:
    """The layers with as many criteria as fit into a page, and the methods that they allow."""
    for criterion in DISPENSABLE:
        if _array_bytes(layers) <= _room():
            break
        layers = tuple(
            replace(layer, scores={name: values for name, values in layer.scores.items() if name != criterion})
            for layer in layers
        )
    there = {"energy", *(layers[0].scores if layers else ())}
    return layers, tuple(name for name in methods if find_method(name).criterion in there)


def _coupled(source: AnySource, layers: tuple[LayerView, ...], horizon: int | None) -> tuple[LayerView, ...]:
    """The layers with what one state is in parameters and, where it fits, what states hold together."""
    layers = tuple(replace(layer, per_size=per_size(source, number)) for number, layer in enumerate(layers))
    systems = [linear_system(source, layer) for layer in source.layers]
    single = all(system is not None and not system.batch for system in systems)
    entries = sum(layer.states**2 for layer in layers)
    if not single or _array_bytes(layers) + 4 * entries > _room():
        return layers
    return tuple(
        replace(layer, coupling=coupling(system, horizon).astype(np.float32))
        for layer, system in zip(layers, systems, strict=True)
        if system is not None
    )


def _array_bytes(layers: Sequence[LayerView]) -> int:
    """Bytes of all arrays."""
    total = 0
    for layer in layers:
        arrays = [layer.poles.log_radius, layer.poles.angle, layer.energy, *layer.scores.values()]
        total += sum(array.nbytes for array in (*arrays, *([] if layer.hankel is None else [layer.hankel])))
    return total


def _room() -> int:
    """Bytes that arrays may have in a page."""
    return int((LARGEST - page_bytes() - SPARED) / CHARACTERS)


def _options(wanted: Exploration) -> Mapping[str, Any]:
    default = Exploration()
    names = ("ratio", "horizon", "seed", "unstable", "layout", "granularity")
    found = {name: getattr(wanted, name) for name in names if getattr(wanted, name) != getattr(default, name)}
    return {**found, "state_axis": list(wanted.state_axes.texts)} if wanted.state_axes.texts else found


def _told(plan: Plan) -> dict[str, str]:
    return {"checkpoint": str(plan.source), "fingerprint": plan.fingerprint, "seed of method random": str(plan.seed)}
