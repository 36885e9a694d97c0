"""aire score: the score of every state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aireprune.cli.messages import in_flags
from aireprune.cli.methods import described
from aireprune.cli.options import Checkpoint, Config, Granularity, Horizon, Json, MethodName, Seed, StateAxis
from aireprune.cli.output import next_step, notices, print_json, say, table
from aireprune.errors import AireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aireprune.method.methods import Method
    from aireprune.pruning.ranking import RankedState


def score(
    ckpt: Checkpoint,
    method: MethodName = "aire",
    horizon: Horizon = None,
    seed: Seed = 0,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=0, help="Show the N best states of each layer; 0: all.")
    ] = 0,
    granularity: Granularity = "mode",
    state_axis: StateAxis = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """The score of every state, best first in each layer."""
    from dataclasses import asdict

    from aireprune.families import StateAxes, Units
    from aireprune.method.methods import find_method
    from aireprune.pruning.planning import is_linear
    from aireprune.pruning.ranking import rank
    from aireprune.pruning.source import open_file

    units = Units(granularity=granularity, state_axes=StateAxes.parse(state_axis or ()))
    source = open_file(ckpt, config, units)
    if find_method(method).measured:
        way = "--reduce balanced" if is_linear(source) else f"--method {method}"
        raise AireError(
            f"aire score needs no data, and method {method} ranks states by what they do to data. With data: aire prune "
            f"{ckpt} -o OUT --ratio 0.5 {way} --calibrate INPUTS."
        )
    ranking = rank(source, method, {"horizon": horizon, "seed": seed})
    best = ranking.best(top)
    notices(source.notices)
    if json:
        rows = [asdict(state) for state in best]
        print_json({"path": str(ckpt), "method": described(ranking.method), "horizon": horizon, "states": rows})
        return
    say(f"{ckpt}: {method} = {in_flags(ranking.method.summary)}")
    _show(best, ranking.method)
    next_step(f"aire prune {ckpt} -o OUT --ratio 0.5 --method {method} --dry-run")


def _show(states: tuple[RankedState, ...], method: Method) -> None:
    """A line per state; angles only where some are not zero."""
    columns: dict[str, Callable[[RankedState], object]] = {
        "layer": lambda state: state.layer,
        "rank": lambda state: state.rank,
        "state": lambda state: state.state,
        "|λ|": lambda state: f"{state.radius:.6f}",
    }
    if any(state.angle for state in states):
        columns["arg λ"] = lambda state: f"{state.angle:+.3f}"
    columns |= {
        "‖B‖²": lambda state: f"{state.b2:.3g}",
        "‖C‖²": lambda state: f"{state.c2:.3g}",
        method.criterion: lambda state: "unstable" if state.unstable else f"{state.score:.4g}",
        "prefix" if method.prefix else "compared": lambda state: "–" if state.unstable else f"{state.compared:.4g}",
    }
    say(table("", columns, [[cell(state) for cell in columns.values()] for state in states]))
