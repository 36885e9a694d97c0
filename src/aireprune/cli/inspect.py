"""aire inspect: what a checkpoint holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aireprune.cli.options import Checkpoint, Config, Json, StateAxis
from aireprune.cli.output import notices, percent, print_json, say, table

if TYPE_CHECKING:
    import numpy as np

    from aireprune.families.base import Layer
    from aireprune.method.states import LayerStates


def inspect(ckpt: Checkpoint, state_axis: StateAxis = None, config: Config = None, json: Json = False) -> None:
    """What a checkpoint holds: family, layers, states, stability margin, energy share per layer."""
    from aireprune.families import StateAxes, Units
    from aireprune.method.decision import energies
    from aireprune.pruning.source import open_file

    source = open_file(ckpt, config, Units(state_axes=StateAxes.parse(state_axis or ())))
    layers, states = source.layers, source.states()
    scores = energies(states)
    total = sum(map(_sum, scores))
    rows = [
        _row(layer, of_layer, values, total) for layer, of_layer, values in zip(layers, states, scores, strict=True)
    ]
    families = sorted({layer.family for layer in layers})
    count = sum(row["states"] for row in rows)
    notices(source.notices)
    if json:
        print_json({"path": str(ckpt), "kind": source.kind, "families": families, "states": count, "layers": rows})
        return
    say(f"{ckpt}: {' and '.join(families)} ({source.kind}), {len(layers)} layers, {count} states")
    _show(rows)


def _sum(energies: np.ndarray) -> float:
    import numpy as np

    return float(np.nansum(energies))


def _row(layer: Layer[Any], states: LayerStates, energies: np.ndarray, total: float) -> dict[str, Any]:
    from aireprune.method.decision import is_dead

    slowest = float(-1 / states.log_radius.max()) if len(states) and states.margin > 0 else None
    return {
        "name": layer.name,
        "family": layer.family,
        "states": layer.states - int(states.silent.sum()),
        "modes_per_state": states.log_radius.shape[1],
        "stability_margin": states.margin,
        "slowest_memory_steps": slowest,
        "unstable": states.unstable.nonzero()[0].tolist(),
        "energy_share": _sum(energies) / total if total > 0 else 0.0,
        "dead": is_dead(energies),
    }


def _show(rows: list[dict[str, Any]]) -> None:
    say(
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
            say(f"unstable poles (|λ| >= 1) in {row['name']}: states {', '.join(map(str, row['unstable']))}")
    dead = [row["name"] for row in rows if row["dead"]]
    if len(dead) == len(rows):
        say("The state space is dead: the states of every layer put out nothing, and all of them can go.")
    elif dead:
        say(f"Dead: the states of {', '.join(dead)} put out nothing, and all of them can go.")
