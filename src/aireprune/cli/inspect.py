"""aire inspect: what a checkpoint holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aireprune.cli.options import Checkpoint, Config, Json, StateAxis
from aireprune.cli.output import bar, next_step, notices, percent, print_json, say, table

if TYPE_CHECKING:
    from aireprune.pruning.overview import LayerOverview


def inspect(ckpt: Checkpoint, state_axis: StateAxis = None, config: Config = None, json: Json = False) -> None:
    """What a checkpoint holds: family, layers, states, stability margin, energy share per layer."""
    from aireprune.families import StateAxes, Units
    from aireprune.pruning.overview import overview
    from aireprune.pruning.source import open_file

    source = open_file(ckpt, config, Units(state_axes=StateAxes.parse(state_axis or ())))
    found = overview(source)
    notices(source.notices)
    if json:
        print_json({"path": str(ckpt), **found.to_dict()})
        return
    say(f"{ckpt}: {' and '.join(found.families)} ({found.kind}), {len(found.layers)} layers, {found.states} states")
    _show(found.layers)
    next_step(f"aire prune {ckpt} -o OUT --ratio 0.5 --dry-run", f"aire explore {ckpt} -o explore.html")


def _show(layers: tuple[LayerOverview, ...]) -> None:
    say(
        table(
            "",
            ("layer", "family", "states", "margin 1-|λ|", "memory", "unstable", "energy", ""),
            (
                (
                    layer.name,
                    layer.family,
                    layer.states,
                    f"{layer.stability_margin:.2e}",
                    "–" if layer.slowest_memory_steps is None else f"{layer.slowest_memory_steps:.0f} steps",
                    len(layer.unstable) or "–",
                    percent(layer.energy_share),
                    bar(layer.energy_share, 8),
                )
                for layer in layers
            ),
            left=2,
        )
    )
    for layer in layers:
        if layer.unstable:
            say(f"unstable poles (|λ| >= 1) in {layer.name}: states {', '.join(map(str, layer.unstable))}")
    dead = [layer.name for layer in layers if layer.dead]
    if len(dead) == len(layers):
        say("The state space is dead: the states of every layer put out nothing, and all of them can go.")
    elif dead:
        say(f"Dead: the states of {', '.join(dead)} put out nothing, and all of them can go.")
