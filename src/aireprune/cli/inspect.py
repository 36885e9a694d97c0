"""aire inspect: what a checkpoint holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aireprune.cli.options import Checkpoint, Config, Json, StateAxis
from aireprune.cli.output import bar, next_step, notices, percent, print_json, say, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from aireprune.pruning.overview import LayerOverview


def inspect(ckpt: Checkpoint, state_axis: StateAxis = None, config: Config = None, json: Json = False) -> None:
    """What a checkpoint holds: family, layers, states, stability margin, energy share per layer."""
    from aireprune.families import StateAxes, Units
    from aireprune.pruning.horizon import LONG, lasting
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
    if far := lasting(source, LONG):
        say(
            f"{far} {'state remembers' if far == 1 else 'states remember'} more than {LONG:,} steps. Energies and Gramians "
            "that count all of them hardly see the others: name the length of your inputs with --horizon, or give some with "
            "--calibrate."
        )
    next_step(f"aire prune {ckpt} -o OUT --ratio 0.5 --dry-run", f"aire explore {ckpt} -o explore.html")


def _show(layers: tuple[LayerOverview, ...]) -> None:
    """A line per layer; families and unstable poles only where they tell layers apart."""
    columns: dict[str, Callable[[LayerOverview], object]] = {"layer": lambda layer: layer.name}
    if len({layer.family for layer in layers}) > 1:
        columns["family"] = lambda layer: layer.family
    columns |= {
        "states": lambda layer: layer.states,
        "margin 1-|λ|": lambda layer: f"{layer.stability_margin:.2e}",
        "memory": lambda layer: _steps(layer.slowest_memory_steps),
    }
    if any(layer.unstable for layer in layers):
        columns["unstable"] = lambda layer: len(layer.unstable) or "–"
    columns["energy"] = lambda layer: f"{percent(layer.energy_share):>7}  {bar(layer.energy_share, 8)}"
    rows = [[cell(layer) for cell in columns.values()] for layer in layers]
    say(table("", columns, rows, left=1 + ("family" in columns)))
    for layer in layers:
        if layer.unstable:
            say(f"unstable poles (|λ| >= 1) in {layer.name}: states {', '.join(map(str, layer.unstable))}")
    dead = [layer.name for layer in layers if layer.dead]
    if len(dead) == len(layers):
        say("The state space is dead: the states of every layer put out nothing, and all of them can go.")
    elif dead:
        say(f"Dead: the states of {', '.join(dead)} put out nothing, and all of them can go.")


def _steps(memory: float | None) -> str:
    return "–" if memory is None else f"{memory:,.0f} steps"
