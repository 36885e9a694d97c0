"""What `aire prune` shows when it is done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aireprune.cli.output import percent, say, size, table
from aireprune.cli.sizes import Sizes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aireprune.calibration.recovery import Recovered
    from aireprune.pruning.plan import Plan
    from aireprune.pruning.prune import Pruned

PAPER = "the paper's way is --method aire --reduce truncate"


def show(done: Pruned, sizes: Sizes, target: Path, *, chosen: bool, mask: bool) -> None:
    """chosen: nobody named the reduction, so it is said which one was taken."""
    plan = done.plan
    if chosen and not mask:
        say(f"{way(plan)}\n")
    say(profile(plan))
    say(
        f"{plan.states - plan.kept} of {plan.states} states {'silenced' if mask else 'removed'} "
        f"({percent(plan.achieved_ratio)}), {sizes.parameters[0]:,} -> {sizes.parameters[1]:,} parameters, "
        f"{size(sizes.bytes[0])} -> {size(sizes.bytes[1])}: {target}"
    )
    if plan.ratio is not None and plan.achieved_ratio < plan.ratio - 0.01:
        say(
            f"{percent(plan.ratio)} were asked for; every layer keeps at least {plan.min_states}, and counts are rounded up."
        )
    advice = None if mask else sizes.advice(plan)
    if advice is not None:
        say(advice)
    if done.fit is not None and plan.calibrated:
        say(
            f"Readouts were calibrated with {plan.calibrated} unlabelled sequences: on held-out ones the outputs differ "
            f"from the full model's by {percent(done.fit.after.output)} ({percent(done.fit.before.output)} before)."
        )
    if done.recovered is not None and plan.recovered:
        say(recovery_line(done.recovered))


def recovery_line(found: Recovered) -> str:
    """What recovery did, on the inputs that were kept aside."""
    before, after = found.before, found.after
    line = (
        f"Recovered in {found.steps:,} steps: on held-out inputs the outputs differ from the full model's by "
        f"{percent(after.output)} ({percent(before.output)} before)"
    )
    if after.kl is None or before.kl is None or after.agreement is None or before.agreement is None:
        return f"{line}."
    return (
        f"{line}, their divergence is {after.kl:.4f} nats ({before.kl:.4f}), and {percent(after.agreement)} of the answers "
        f"are the same ({percent(before.agreement)})."
    )


def way(plan: Plan) -> str:
    """How states were removed, for somebody who left that open."""
    families = " and ".join(sorted({layer.family for layer in plan.layers}))
    data = "with calibrated readouts" if plan.calibrated else "without data"
    if plan.reduce == "balanced":
        return f"Balanced truncation, the best way {data} for {families} layers; {PAPER}."
    return f"States were removed as they are, by method {plan.method}: the way {data} for {families} layers."


def profile(plan: Plan) -> RenderableType:
    """The per-layer table of a plan: the share of energy (balanced: of squared Hankel values) that stays, and the exact H2
    error of the layer, relative to its H2 norm."""
    errors = {layer["name"]: percent(layer["relative_h2"], 2) for layer in plan.certificate or ()}
    held = "Hankel kept" if plan.reduce == "balanced" else "energy kept"
    return table(
        f"{plan.method if plan.reduce == 'truncate' else plan.reduce}: kept states per layer",
        ("layer", "states", "kept", "removed", held, *["H2 error"] * bool(errors)),
        (
            (
                layer.name,
                layer.counted,
                len(layer.kept),
                percent(layer.ratio),
                percent(layer.energy_kept, 2),
                *[errors.get(layer.name, "–")] * bool(errors),
            )
            for layer in plan.layers
        ),
    )
