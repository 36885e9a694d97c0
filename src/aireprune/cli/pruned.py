"""What `aire prune` shows when it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aireprune.cli.output import bar, percent, say, size, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aireprune.bench.pruned import Speed
    from aireprune.calibration.comparison import Distance
    from aireprune.calibration.recovery import Recovered
    from aireprune.cli.sizes import Sizes
    from aireprune.pruning.outcome import Outcome, Pruned
    from aireprune.pruning.plan import Plan

PAPER = "the paper's way is --method aire --reduce truncate"


@dataclass(frozen=True, kw_only=True)
class View:
    """What is wanted: whether the reduction and the method were named by somebody; mask, states are silenced; details, the
    share of energy that stays and the H2 error of every layer as well."""

    reduce_named: bool
    method_named: bool
    mask: bool
    details: bool

    def way(self, plan: Plan) -> str | None:
        """Which way was taken, if that was left open."""
        if self.mask or self.reduce_named or (self.method_named and plan.reduce == "truncate"):
            return None
        return way(plan)


def show(done: Pruned, sizes: Sizes, speed: Speed | None, view: View) -> None:
    plan, outcome = done.plan, done.outcome
    taken = view.way(plan)
    if taken is not None:
        say(f"{taken}\n")
    say(profile(plan, outcome, view.details))
    if plan.ratio is not None and plan.achieved_ratio < plan.ratio - 0.01 and plan.target is None:
        say(
            f"{percent(plan.ratio)} were asked for; every layer keeps at least {plan.min_states}, and counts are rounded up."
        )
    say()
    say(sizes_table(plan, sizes, view.mask))
    if not view.mask:
        say(worth(sizes, speed))
    if done.fit is not None and plan.calibrated:
        say(_measured(done.plan, done.fit.before, done.fit.after))
    if done.recovered is not None and plan.recovered:
        say(recovery_line(done.recovered))
    for warning in () if view.mask else (few_states(plan), damage(plan, outcome)):
        if warning is not None:
            say(warning)


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
    if plan.reduce == "projected":
        return f"New states by projection: the best way with data for {families} layers that are projected already."
    if plan.reduce == "fitted":
        rows = "and the rows that make B and C fitted" if plan.calibrated else "as they are, since fitting did not help"
        return (
            f"States that others can stand in for are removed, {rows}: the way with data for {families} layers that "
            "stock code loads; --reduce projected does less harm, in a layout that only aireprune.load reads."
        )
    return f"Plain removal of states, by method {plan.method}: the way {data} for {families} layers."


def profile(plan: Plan, outcome: Outcome, details: bool = False) -> RenderableType:
    """The per-layer table of a plan: what stays of every layer, and how far its output is or will be from the full one.

    Of a projection, the error of the scan that was predicted and the one that was measured stand side by side.
    details: also the share of energy (balanced: of squared Hankel values) that stays and the exact H2 error, which say
    little about the answers.
    """
    columns: dict[str, dict[str, float | None]] = {}
    if plan.reduce == "projected":
        columns["predicted error"] = {layer.name: layer.predicted_error for layer in plan.layers}
        columns["measured error"] = {layer.name: layer.measured_error for layer in plan.layers}
    if outcome.output_error is not None:
        columns["output error"] = dict(outcome.output_error)
    elif not plan.recovered and any(error is not None for error in outcome.expected.values()):
        columns["expected error"] = dict(outcome.expected)
    if details:
        held = "Hankel kept" if plan.reduce == "balanced" else "energy kept"
        columns[held] = {layer.name: layer.energy_kept for layer in plan.layers}
        if plan.certificate is not None:
            columns["H2 error"] = {layer["name"]: layer["relative_h2"] for layer in plan.certificate}

    def shown(value: float | None) -> str:
        return "–" if value is None else percent(value)

    return table(
        f"{plan.method if plan.reduce == 'truncate' else plan.reduce}: kept states per layer",
        ("layer", "states", "kept", "", "removed", *columns),
        (
            (
                layer.name,
                layer.counted,
                len(layer.kept),
                bar(1 - layer.ratio),
                percent(layer.ratio),
                *(shown(column.get(layer.name)) for column in columns.values()),
            )
            for layer in plan.layers
        ),
    )


def sizes_table(plan: Plan, sizes: Sizes, mask: bool) -> RenderableType:
    """Full and pruned side by side."""
    rows: list[tuple[str, tuple[int, int], str]] = [
        ("states", (plan.states, plan.kept), "number"),
        ("parameters", sizes.parameters, "number"),
        ("weights", sizes.bytes, "bytes"),
        ("state of a sequence", sizes.costs.memory, "bytes"),
    ]

    def shown(value: int, kind: str) -> str:
        return f"{value:,}" if kind == "number" else size(value)

    return table(
        "",
        ("", "full", "masked" if mask else "pruned", "saved"),
        (
            (name, shown(before, kind), shown(after, kind), percent(1 - after / before if before else 0.0))
            for name, (before, after), kind in rows
            if not (mask and kind == "bytes" and name != "weights")
        ),
    )


def worth(sizes: Sizes, speed: Speed | None) -> str:
    """How much of a model its states are, which limits what their removal can gain."""
    costs = sizes.costs
    if speed is None:
        return (
            f"States are {percent(costs.parameter_share)} of the parameters and about {percent(costs.operation_share)} of "
            f"the operations: expect {costs.speedup:.2f} times the speed at most (counted; --bench measures it)."
        )
    middle, low, high = speed.speedup
    return (
        f"States are {percent(costs.parameter_share)} of the parameters and {percent(speed.share)} of the time: the pruned "
        f"model is {middle:.2f} times as fast (quartiles {low:.2f} to {high:.2f}; {speed.batch} sequences of {speed.length} "
        f"steps, {speed.full:.1f} and {speed.pruned:.1f} ms)."
    )


def _measured(plan: Plan, before: Distance, after: Distance) -> str:
    answers = ""
    if after.agreement is not None and after.kl is not None:
        answers = f"; {percent(after.agreement)} of the answers are the same, KL {after.kl:.3g}"
    return (
        f"Readouts were calibrated with {plan.calibrated} unlabelled sequences: on held-out ones the outputs differ "
        f"from the full model's by {percent(after.output)} ({percent(before.output)} before){answers}."
    )


def few_states(plan: Plan) -> str | None:
    """One line where layers are left with a single state."""
    single = [layer.name for layer in plan.layers if len(layer.kept) == 1 < layer.counted]
    if not single:
        return None
    named = ", ".join(single[:3]) + (f" and {len(single) - 3} more" if len(single) > 3 else "")
    return f"Only one state stays in {named}: such a layer can do little. --min-states K keeps more, a smaller --ratio too."


def damage(plan: Plan, outcome: Outcome) -> str | None:
    """One line where the answers will be, or are, others than the full model's, with what to do about it."""
    if not outcome.is_bad:
        return None
    if outcome.agreement is not None:
        found = f"Only {percent(outcome.agreement)} of the answers are those of the full model"
    else:
        assert outcome.error is not None
        found = f"This is likely to do damage (expected error {percent(outcome.error)})"
    return f"{found}: try {', '.join(_ways_out(plan))}."


def _ways_out(plan: Plan) -> list[str]:
    """Options that do less harm, the most helpful first."""
    from aireprune.families import FAMILIES, LTIFamily

    linear = all(isinstance(FAMILIES[layer.family], LTIFamily) for layer in plan.layers)
    heads = all(layer.family == "mamba2" for layer in plan.layers)
    ways = ["--calibrate INPUTS"] * (not plan.calibrated)
    ways += ["--reduce balanced"] * (linear and plan.reduce == "truncate")
    ways += ["--reduce projected"] * (heads and plan.reduce != "projected" and plan.calibrated > 0)
    ways += ["--recover MINUTES"] * bool(plan.calibrated and not plan.recovered)
    ways += ["--layout adaptive"] * (plan.layout == "uniform" and any(layer.family == "s4d" for layer in plan.layers))
    return [*ways, "or a smaller --ratio" if ways else "a smaller --ratio"]
