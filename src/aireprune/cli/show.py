"""aire inspect, aire score, aire methods, aire tasks: look, change nothing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from aireprune.cli.output import console, notices, percent, print_json, table
from aireprune.method.methods import METHODS, REDUCTIONS
from aireprune.method.methods import method as find_method
from aireprune.method.selection import prefix_normalize
from aireprune.pruning.plan import score_states
from aireprune.pruning.source import open_source


def inspect(path: Path, config: Path | None, json: bool) -> None:
    source = open_source(path, config)
    layers, states = source.layers, source.states()
    energies = [np.nansum(scores) for scores in score_states(states, "aire")]
    total = sum(energies)
    rows = [
        {
            "name": layer.name,
            "family": layer.family,
            "states": layer.states,
            "modes_per_state": states_.log_radius.shape[1],
            "stability_margin": states_.margin,
            "slowest_memory_steps": float(-1 / states_.log_radius.max())
            if len(states_) and states_.margin > 0
            else None,
            "unstable": np.flatnonzero(states_.unstable).tolist(),
            "energy_share": float(energy / total) if total > 0 else 0.0,
        }
        for layer, states_, energy in zip(layers, states, energies, strict=True)
    ]
    families = sorted({layer.family for layer in layers})
    kind = source.kind
    notices(source.notices)
    if json:
        count = sum(layer.states for layer in layers)
        print_json({"path": str(path), "kind": kind, "families": families, "states": count, "layers": rows})
        return
    console.print(
        f"{path}: {' and '.join(families)} ({kind}), {len(layers)} layers, {sum(len(s) for s in states)} states"
    )
    console.print(
        table(
            "",
            ("layer", "family", "states", "margin 1-|λ|", "memory", "unstable", "energy"),
            (
                (
                    row["name"],
                    row["family"],
                    row["states"],
                    f"{row['stability_margin']:.2e}",
                    "–" if row["slowest_memory_steps"] is None else f"{row['slowest_memory_steps']:.0f} steps",
                    len(row["unstable"]) or "–",
                    percent(row["energy_share"]),
                )
                for row in rows
            ),
            left=2,
        )
    )
    for row in rows:
        if row["unstable"]:
            console.print(f"unstable poles (|λ| >= 1) in {row['name']}: states {', '.join(map(str, row['unstable']))}")


def score(
    path: Path, method: str, horizon: int | None, seed: int, top: int, granularity: str, config: Path | None, json: bool
) -> None:
    chosen = find_method(method)
    source = open_source(path, config, granularity=granularity)
    layers, states = source.layers, source.states()
    scores = score_states(states, method, horizon, seed)
    rows = []
    for layer, states_, raw in zip(layers, states, scores, strict=True):
        stable = ~states_.unstable
        compared = np.full(len(raw), np.nan)
        compared[stable] = prefix_normalize(raw[stable]) if chosen.prefix else raw[stable]
        order = np.argsort(-np.where(stable, raw, np.inf), kind="stable")
        for rank, index in enumerate(order[: top or None]):
            rows.append(
                {
                    "layer": layer.name,
                    "rank": rank + 1,
                    "state": int(index),
                    "radius": float(states_.radius[index].max()),
                    "angle": float(states_.angle[index][0]),
                    "b2": float(states_.b2[index].sum()),
                    "c2": float(states_.mean_c2[index].sum()),
                    "score": float(raw[index]),
                    "compared": float(compared[index]),
                    "unstable": bool(states_.unstable[index]),
                }
            )
    notices(source.notices)
    if json:
        print_json({"path": str(path), "method": asdict(chosen), "horizon": horizon, "states": rows})
        return
    last = "prefix-normalised" if chosen.prefix else "compared"
    console.print(f"{path}: {method} = {chosen.summary}")
    console.print(
        table(
            "",
            ("layer", "rank", "state", "|λ|", "arg λ", "‖B‖²", "‖C‖²", chosen.criterion, last),
            (
                (
                    row["layer"],
                    row["rank"],
                    row["state"],
                    f"{row['radius']:.6f}",
                    f"{row['angle']:+.3f}",
                    f"{row['b2']:.3g}",
                    f"{row['c2']:.3g}",
                    "unstable" if row["unstable"] else f"{row['score']:.4g}",
                    "–" if row["unstable"] else f"{row['compared']:.4g}",
                )
                for row in rows
            ),
        )
    )


def methods(json: bool) -> None:
    if json:
        print_json([asdict(method) for method in METHODS.values()])
        return
    console.print(
        table(
            "",
            ("method", "criterion", "normalisation", "scope", "what it is"),
            ((m.name, m.criterion, "prefix" if m.prefix else "–", m.scope, m.summary) for m in METHODS.values()),
            left=5,
        )
    )
    console.print()
    console.print(table("", ("reduction", "what becomes of the states that stay"), REDUCTIONS.items(), left=2))


def tasks(json: bool) -> None:
    from aireprune.folders import data_folder
    from aireprune.tasks.catalogue import catalogue

    entries = catalogue()
    if json:
        print_json({"data": str(data_folder()), "tasks": [asdict(entry) for entry in entries]})
        return
    console.print(f"data folder (AIRE_DATA): {data_folder()}")
    console.print(
        table("", ("task", "data", "what it is"), ((e.name, _source(e.data), e.what) for e in entries), left=3)
    )


def _source(data: str | None) -> str:
    return "missing" if data is None else data if data == "generated" else Path(data).name
