"""Which number predicts what a pruned model loses? Rank correlations with the accuracy lost in the sweeps of docs/results.

    .venv/bin/python tools/predictors.py

Every uncalibrated cell of a sweep is planned again, and its layers are compared with the full ones by each candidate; the
error of a model is the root mean square over its layers. Printed are Spearman's correlation with the accuracy lost (bits
gained, for a language model) and how often, at the same ratio, a candidate puts dropping (aire) and balanced truncation in
the right order, where they differ by more than 1.5 points. Nothing is evaluated. The embedded model's accuracies are those
of docs/reductions.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from torch import nn

from aireprune import embedded
from aireprune.certificates.audit import feedthrough, with_feedthrough
from aireprune.experiments.cells import read_cells
from aireprune.experiments.pruner import load_model
from aireprune.families import lti_family
from aireprune.method.criteria import CRITERIA, Conditions
from aireprune.method.gramians import energy
from aireprune.method.lowpass import CORRELATION, SEEN, slow_power
from aireprune.method.reductions import Reduction
from aireprune.method.selection import Budget
from aireprune.method.system import ModalSystem
from aireprune.pruning.outcome import limit_for
from aireprune.pruning.planning import make_plan
from aireprune.pruning.request import Request
from aireprune.pruning.source import ModuleSource, open_module
from aireprune.pruning.surgery import operate

ROOT = Path(__file__).resolve().parents[1]
LINEAR = ("listops-s5", "text-s5", "image-s5", "pathfinder-s5", "speech-s5", "listops-s4d", "image-s4d")
SELECTIVE = ("smnist-mamba", "lm-mamba")
CHOSEN = f"slow inputs, rho {CORRELATION:g}, {SEEN:,} steps"
READ = (*((CORRELATION, steps) for steps in (None, 100, 300, SEEN, 3000)), *((rho, SEEN) for rho in (0.9, 0.99, 0.999)))
POINTS = 0.05  # accuracy lost, from which on a model counts as damaged
APART = 0.015  # accuracy between dropping and balancing, from which on their order counts


@dataclass(frozen=True)
class Row:
    """One pruned model: how it was made, what it lost, and what the candidates say about it."""

    method: str
    reduce: str
    ratio: float
    seed: int
    lost: float
    said: Mapping[str, float]


def main() -> None:
    models = {"embedded": embedded_rows(), **{name: sweep_rows(name) for name in LINEAR}}
    print_table(models, "Linear, time-invariant layers")
    print_limits(models)
    print_table({name: sweep_rows(name) for name in SELECTIVE}, "Selective layers")


def embedded_rows() -> list[Row]:
    document = json.loads((ROOT / "docs" / "reductions.json").read_text())
    lines = {"truncate": "truncate (aire)", "refit": "refit", "balanced": "balanced"}
    cells = [
        ("aire", reduce, ratio, 0, document["full"] - accuracy)
        for reduce, line in lines.items()
        for ratio, accuracy in zip(document["ratios"], document["accuracy"][line], strict=True)
    ]
    return list(rows_of(load_model(embedded.MODEL), cells))


def sweep_rows(name: str) -> list[Row]:
    folder = ROOT / "docs" / "results" / name
    sweep, results = json.loads((folder / "sweep.json").read_text()), read_cells(folder / "cells.jsonl")
    variants = {variant["name"]: variant for variant in sweep["variants"] if not variant["calibrated"]}
    full = next(result.test for key, result in results.items() if key.variant == "full")
    sign = 1 if sweep["metric"] == "accuracy" else -1
    cells = [
        (
            variants[key.variant]["method"],
            variants[key.variant]["reduce"],
            key.ratio,
            key.seed,
            sign * (full - result.test),
        )
        for key, result in results.items()
        if key.variant in variants
    ]
    return list(rows_of(load_model(f"zoo:{name}"), cells))


def rows_of(model: nn.Module, cells: list[tuple[str, str, float, int, float]]) -> Iterator[Row]:
    source = open_module(model)
    linear = source.layers[0].family in ("s5", "s4d", "lru")
    said = linear_candidates(source) if linear else selective_candidates(source)
    for method, reduce, ratio, seed, lost in cells:
        request = Request(budget=Budget(ratio), method=method, reduce=reduce, layout="adaptive", seed=seed)
        yield Row(method, reduce, ratio, seed, lost, {"ratio": ratio, **said(request)})


def linear_candidates(source: ModuleSource) -> Callable[[Request], dict[str, float]]:
    """What closed forms say about a request, each the root mean square over layers of a relative error."""
    full = [lti_family(layer, "this").system(layer, source.arrays) for layer in source.layers]
    skips = [feedthrough(source, number) for number in range(len(full))]
    whole = [system if d is None else with_feedthrough(system, d) for system, d in zip(full, skips, strict=True)]
    norms: dict[str, tuple[Callable[[ModalSystem], np.ndarray], list[ModalSystem]]] = {
        "H2 (white inputs)": (energy, full),
        "H2 of the first 16 steps": (lambda system: energy(system, 16), full),
        "H2, relative to C x + D u": (energy, whole),
        **{
            f"slow inputs, rho {rho:g}, {'all' if steps is None else f'{steps:,}'} steps": (
                partial(slow_power, correlation=rho, horizon=steps),
                full,
            )
            for rho, steps in READ
        },
        f"{CHOSEN}, relative to C x + D u": (partial(slow_power, horizon=SEEN), whole),
    }
    powers = {name: [float(norm(system).sum()) for system in systems] for name, (norm, systems) in norms.items()}

    def candidates(request: Request) -> dict[str, float]:
        plan = make_plan(source, request)
        reductions = [found for found in operate(source, plan).reductions if isinstance(found, Reduction)]
        said = {"energy (Hankel) lost": rms(1 - layer.energy_kept for layer in plan.layers)}
        for name, (norm, _) in norms.items():
            errors = [float(norm(reduction.error).sum()) for reduction in reductions]
            said[name] = rms(np.sqrt(np.divide(errors, powers[name])))
        return said

    return candidates


def selective_candidates(source: ModuleSource) -> Callable[[Request], dict[str, float]]:
    """The root of the share that is removed of what each criterion sums up."""
    states = source.states()
    scores = {
        criterion: [
            CRITERIA[criterion](layer, Conditions(None, 0, number, None)) for number, layer in enumerate(states)
        ]
        for criterion in ("energy", "peak", "magnitude")
    }

    def candidates(request: Request) -> dict[str, float]:
        kept = [list(layer.kept) for layer in make_plan(source, request).layers]
        return {
            f"{criterion} lost": rms(
                np.sqrt(max(0.0, 1 - layer[stay].sum() / layer.sum())) for layer, stay in zip(values, kept, strict=True)
            )
            for criterion, values in scores.items()
        }

    return candidates


def rms(values: Iterator[float] | np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(list(values)))))


def spearman(a: list[float], b: list[float]) -> float:
    """Correlation of ranks; equal values share theirs."""

    def ranks(values: list[float]) -> np.ndarray:
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse])

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def in_order(rows: list[Row], candidate: str) -> list[bool]:
    """Whether dropping and balancing are in the right order, at every ratio at which that matters."""
    found = {(row.reduce, row.ratio): row for row in rows if row.method == "aire" and row.reduce != "refit"}
    pairs = [(row, found.get(("balanced", ratio))) for (reduce, ratio), row in found.items() if reduce == "truncate"]
    return [
        (a.said[candidate] > b.said[candidate]) == (a.lost > b.lost)
        for a, b in pairs
        if b is not None and abs(a.lost - b.lost) > APART
    ]


def print_table(models: Mapping[str, list[Row]], title: str) -> None:
    print(f"\n{title}\n\n| candidate | {' | '.join(models)} | mean | order |")
    print("|---|" + "--:|" * (len(models) + 2))
    for candidate in next(iter(models.values()))[0].said:
        rhos = [spearman([row.said[candidate] for row in rows], [row.lost for row in rows]) for rows in models.values()]
        right = [right for rows in models.values() for right in in_order(rows, candidate)]
        order = f"{sum(right)} of {len(right)}" if right else "–"
        print(
            f"| {candidate} | {' | '.join(f'{rho:.2f}' for rho in rhos)} | {np.mean(rhos):.3f} | {order} |", flush=True
        )


def print_limits(models: Mapping[str, list[Row]]) -> None:
    """How often models on either side of the limits in `aireprune.pruning.outcome` lose more than POINTS."""
    sides: dict[tuple[float, str], list[bool]] = {}
    for name, rows in models.items():
        family = name.rpartition("-")[2].replace("embedded", "s5")
        for row in rows:
            limit = limit_for(row.reduce, {family})
            side = "above" if row.said[CHOSEN] > limit else "below"
            sides.setdefault((limit, side), []).append(row.lost > POINTS)
    print()
    for (limit, side), lost in sorted(sides.items()):
        print(f"expected error {side} the limit of {limit:g}: {sum(lost)} of {len(lost)} lose more than {POINTS:.0%}")


if __name__ == "__main__":
    main()
