"""aire score: the score of every state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aireprune.cli.messages import in_flags
from aireprune.cli.methods import described
from aireprune.cli.options import Checkpoint, Config, Granularity, Horizon, Json, MethodName, Seed, StateAxis
from aireprune.cli.output import notices, print_json, say, table

if TYPE_CHECKING:
    import numpy as np

    from aireprune.method.methods import Method
    from aireprune.method.states import LayerStates


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
    from aireprune.families import StateAxes, Units
    from aireprune.method.decision import Scoring, score_states
    from aireprune.method.methods import find_method
    from aireprune.pruning.source import open_file

    chosen = find_method(method)
    units = Units(granularity=granularity, state_axes=StateAxes.parse(state_axis or ()))
    source = open_file(ckpt, config, units)
    states = source.states()
    scores = score_states(states, Scoring(method=method, horizon=horizon, seed=seed))
    rows = []
    for layer, of_layer, raw in zip(source.layers, states, scores, strict=True):
        best = list(_ranked(of_layer, raw, chosen.prefix))
        rows += [{"layer": layer.name, **row} for row in best[: top or None]]
    notices(source.notices)
    if json:
        print_json({"path": str(ckpt), "method": described(chosen), "horizon": horizon, "states": rows})
        return
    say(f"{ckpt}: {method} = {in_flags(chosen.summary)}")
    _show(rows, chosen)


def _ranked(states: LayerStates, raw: np.ndarray, prefix: bool) -> Iterator[dict[str, Any]]:
    """The states of a layer, best first; unstable ones, which have no score, come before the others."""
    import numpy as np

    from aireprune.method.selection import prefix_normalize

    stable = ~states.unstable
    compared = np.full(len(raw), np.nan)
    compared[stable] = prefix_normalize(raw[stable]) if prefix else raw[stable]
    order = np.argsort(-np.where(stable, raw, np.inf), kind="stable")
    for rank, index in enumerate(order):
        yield {
            "rank": rank + 1,
            "state": int(index),
            "radius": float(states.radius[index].max()),
            "angle": float(states.angle[index][0]),
            "b2": float(states.b2[index].sum()),
            "c2": float(states.mean_c2[index].sum()),
            "score": float(raw[index]),
            "compared": float(compared[index]),
            "unstable": bool(states.unstable[index]),
        }


def _show(rows: list[dict[str, Any]], method: Method) -> None:
    last = "prefix-normalised" if method.prefix else "compared"
    say(
        table(
            "",
            ("layer", "rank", "state", "|λ|", "arg λ", "‖B‖²", "‖C‖²", method.criterion, last),
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
