"""aire inspect: what a checkpoint holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aireprune.cli.options import Checkpoint, Config, Json
from aireprune.cli.output import notices, percent, print_json, say, table

if TYPE_CHECKING:
    from aireprune.families.base import Layer
    from aireprune.method.states import LayerStates


def inspect(ckpt: Checkpoint, config: Config = None, json: Json = False) -> None:
    """What a checkpoint holds: family, layers, states, stability margin, energy share per layer."""
    import numpy as np

    from aireprune.pruning.plan import score_states
    from aireprune.pruning.source import open_source

    source = open_source(ckpt, config)
    layers, states = source.layers, source.states()
    energies = [float(np.nansum(scores)) for scores in score_states(states, "aire")]
    total = sum(energies)
    rows = [
        _row(layer, of_layer, energy / total if total > 0 else 0.0)
        for layer, of_layer, energy in zip(layers, states, energies, strict=True)
    ]
    families = sorted({layer.family for layer in layers})
    notices(source.notices)
    if json:
        count = sum(layer.states for layer in layers)
        print_json({"path": str(ckpt), "kind": source.kind, "families": families, "states": count, "layers": rows})
        return
    say(f"{ckpt}: {' and '.join(families)} ({source.kind}), {len(layers)} layers, {sum(map(len, states))} states")
    _show(rows)


def _row(layer: Layer, states: LayerStates, share: float) -> dict[str, Any]:
    slowest = float(-1 / states.log_radius.max()) if len(states) and states.margin > 0 else None
    return {
        "name": layer.name,
        "family": layer.family,
        "states": layer.states,
        "modes_per_state": states.log_radius.shape[1],
        "stability_margin": states.margin,
        "slowest_memory_steps": slowest,
        "unstable": states.unstable.nonzero()[0].tolist(),
        "energy_share": share,
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
