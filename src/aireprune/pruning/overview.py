"""What a model holds: its layers, how many states they have, how long these remember, and how much they put out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from aireprune.extras import data_frame
from aireprune.families import Layer
from aireprune.method.decision import energies, is_dead
from aireprune.method.states import LayerStates
from aireprune.pruning.source import Source


@dataclass(frozen=True, kw_only=True)
class LayerOverview:
    """One layer. states: those with a gain. energy_share: of the summed [energy] of the whole model.

    stability_margin: the smallest 1 - |lambda|. slowest_memory_steps: time constant of its slowest pole; None if that does
    not decay. unstable: states with |lambda| >= 1. dead: its states put out nothing.
    """

    name: str
    family: str
    states: int
    modes_per_state: int
    stability_margin: float
    slowest_memory_steps: float | None
    unstable: tuple[int, ...]
    energy_share: float
    dead: bool


@dataclass(frozen=True, kw_only=True)
class Overview:
    """All layers of a model in memory or of a checkpoint, and the kind of file that it is."""

    name: str
    kind: str
    layers: tuple[LayerOverview, ...]

    @property
    def families(self) -> list[str]:
        return sorted({layer.family for layer in self.layers})

    @property
    def states(self) -> int:
        return sum(layer.states for layer in self.layers)

    def to_dict(self) -> dict[str, Any]:
        layers = [{**asdict(layer), "unstable": list(layer.unstable)} for layer in self.layers]
        return {"kind": self.kind, "families": self.families, "states": self.states, "layers": layers}

    def to_pandas(self) -> Any:
        """A DataFrame with a row per layer."""
        return data_frame([asdict(layer) for layer in self.layers])


def overview(source: Source) -> Overview:
    """What is in a source."""
    states = source.states()
    scores = energies(states)
    total = float(sum(np.nansum(values) for values in scores))
    rows = zip(source.layers, states, scores, strict=True)
    return Overview(
        name=source.name,
        kind=source.kind,
        layers=tuple(_layer(layer, of_layer, values, total) for layer, of_layer, values in rows),
    )


def _layer(layer: Layer[Any], states: LayerStates, energies: np.ndarray, total: float) -> LayerOverview:
    slowest = float(-1 / states.log_radius.max()) if len(states) and states.margin > 0 else None
    return LayerOverview(
        name=layer.name,
        family=layer.family,
        states=layer.states - int(states.silent.sum()),
        modes_per_state=states.log_radius.shape[1],
        stability_margin=states.margin,
        slowest_memory_steps=slowest,
        unstable=tuple(_indices(states.unstable)),
        energy_share=float(np.nansum(energies)) / total if total > 0 else 0.0,
        dead=is_dead(energies),
    )


def _indices(marks: np.ndarray) -> Sequence[int]:
    return [int(index) for index in np.flatnonzero(marks)]
