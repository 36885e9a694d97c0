"""When does ranking by energy beat ranking by H-infinity norms? A table over the models of the zoo.

    .venv/bin/python tools/rankings.py

Every model was swept with `aire` (energy) and `last` (H-infinity), which differ in nothing else: docs/results by
`aire reproduce`, docs/results/rankings by `aire sweep zoo:NAME --task smnist --methods aire,last --ratios 0.3,0.5,0.7
--examples 500`. The gap is the mean over the ratios 30, 50 and 70 % of what `aire` reaches minus what `last` reaches on the
same test examples, in points of accuracy (per cent of the bits per byte fewer), with its 95 % interval. Beside it stands
what can be measured in the model before anything is pruned; under the table, how far any of it separates the models that
energy wins from those that H-infinity wins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aireprune.experiments.cells import Key, Results, read_cells
from aireprune.experiments.paper.markdown import table
from aireprune.experiments.request import FULL
from aireprune.experiments.statistics import normal_interval
from aireprune.experiments.summary import Summary
from aireprune.families import FAMILIES, LTIFamily
from aireprune.method.criteria import CRITERIA, Conditions
from aireprune.method.states import LayerStates
from aireprune.pruning.source import FileSource, open_file
from aireprune.zoo import FOLDER

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
RATIOS = (0.3, 0.5, 0.7)
NEARLY_UNSTABLE = 0.01  # 1 - |lam| below


@dataclass(frozen=True)
class Model:
    """gap: of aire over last, with its interval. measured: by name, before pruning."""

    name: str
    gap: float
    low: float
    high: float
    measured: Mapping[str, float]

    @property
    def winner(self) -> str:
        return "energy" if self.low > 0 else "H∞" if self.high < 0 else "–"


def main() -> None:
    folders = sorted(
        path.parent for path in (*RESULTS.glob("*/summary.json"), *RESULTS.glob("rankings/*/summary.json"))
    )
    models = sorted((model_of(folder) for folder in folders), key=lambda model: -model.gap)
    names = list(models[0].measured)
    rows = [
        [
            model.name,
            f"{model.gap:+.1f} [{model.low:+.1f}, {model.high:+.1f}]",
            model.winner,
            *(_number(model.measured[name]) for name in names),
        ]
        for model in models
    ]
    print(table(("model", "energy over H∞", "ahead", *names), rows))
    print()
    for name in names:
        print(separation(name, models))


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2g}" if value < 1 else f"{value:.0f}"


def model_of(folder: Path) -> Model:
    summary, cells = Summary.load(folder / "summary.json"), read_cells(folder / "cells.jsonl")
    gaps = per_example_gap(summary, cells)
    low, high = normal_interval(gaps)
    source = open_file(FOLDER / folder.name)
    found = measured(source.states()) | {"coherence of modes": coherence(source)}
    return Model(folder.name, float(gaps.mean()), low, high, found)


def per_example_gap(summary: Summary, cells: Results) -> np.ndarray:
    """Of every test example, the mean over the ratios of aire minus last, in points; of bits, in per cent fewer."""
    found = []
    for ratio in RATIOS:
        ours, theirs = (cells[Key(method, ratio, 0)].per_example(summary.examples) for method in ("aire", "last"))
        found.append(ours - theirs if summary.accuracy else (theirs - ours) / cells[FULL.key].test)
    return 100 * np.mean(found, axis=0)


def measured(layers: list[LayerStates]) -> dict[str, float]:
    """Medians and shares over all states of the model; correlations within a layer, then the mean."""
    alive = [layer for layer in layers if len(layer)]
    energies = [CRITERIA["energy"](layer, Conditions()) for layer in alive]
    peaks = [CRITERIA["peak"](layer, Conditions()) for layer in alive]
    memory = [-1 / np.median(layer.log_radius, axis=1) for layer in alive]
    margin = [-np.expm1(layer.log_radius).min(axis=1) for layer in alive]
    energy, slow = np.concatenate(energies), np.concatenate(margin) < NEARLY_UNSTABLE
    spread = [float(np.std(np.log10(values))) for values in memory]
    return {
        "median memory, steps": float(np.median(np.concatenate(memory))),
        "spread of memory, decades": float(np.mean(spread)),
        "states with 1-r < 0.01": float(slow.mean()),
        "energy in them": float(energy[slow].sum() / energy.sum()),
        "energy in the first half": float(np.mean([_first_half(values) for values in energies])),
        "rank correlation of the two": float(np.mean([_spearman(a, b) for a, b in zip(energies, peaks, strict=True)])),
        "of energy with memory": float(np.mean([_spearman(a, b) for a, b in zip(energies, memory, strict=True)])),
    }


def coherence(source: FileSource) -> float:
    """Of linear layers: how much of a mode's impulse response lies along that of the one most like it, mean over modes;
    not a number for selective layers."""
    found = []
    for layer in source.layers:
        family = FAMILIES[layer.family]
        if not isinstance(family, LTIFamily):
            return math.nan
        system = family.system(layer, source.arrays)
        inputs = system.b @ np.conj(system.b).swapaxes(-1, -2)
        outputs = np.einsum("...dop,...doq->...pq", system.c, np.conj(system.c))
        alike = np.abs(inputs * outputs / (1 - system.lam[..., :, None] * np.conj(system.lam)[..., None, :]))
        size = np.sqrt(np.einsum("...ii->...i", alike))
        alike = alike / (size[..., :, None] * size[..., None, :])
        np.einsum("...ii->...i", alike)[...] = 0
        found.append(alike.max(axis=-1).ravel())
    return float(np.concatenate(found).mean())


def _first_half(energies: np.ndarray) -> float:
    """Share of the energy that the larger half of the states has."""
    ordered = np.sort(energies)[::-1]
    return float(ordered[: len(ordered) // 2].sum() / ordered.sum())


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(values)) for values in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def separation(name: str, models: list[Model]) -> str:
    """How well a threshold on one number tells the winners apart, beside always expecting the more frequent one."""
    known = [model for model in models if not math.isnan(model.measured[name])]
    decided = [model for model in known if model.winner != "–"]
    values = np.array([model.measured[name] for model in decided])
    wins = np.array([model.winner == "energy" for model in decided])
    right = max(int(((values > cut) == (wins == way)).sum()) for cut in (-np.inf, *values) for way in (True, False))
    always = max(int(wins.sum()), int((~wins).sum()))
    rank = _spearman(np.array([model.measured[name] for model in known]), np.array([model.gap for model in known]))
    return (
        f"{name}: the best threshold is right for {right} of {len(decided)} (without looking: {always}); rank correlation "
        f"with the gap {rank:+.2f}"
    )


if __name__ == "__main__":
    main()
