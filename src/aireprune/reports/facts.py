"""What somebody who has to decide reads first: a few numbers, and one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aireprune.pruning.plan import Plan
from aireprune.reports.document import Fact, LayerView, SweepView
from aireprune.reports.measured import Measured
from aireprune.reports.sizes import Size, bytes_text, count_text

SURE = 0.05  # p value from which on a difference is not called one
NOISY = 1.5  # upper over lower quartile of a speedup, from where on the machine was too busy to tell
HELD = 0.99  # share of a layer's energy


def size_facts(before: Size | None, after: Size | None) -> list[Fact]:
    """Parameters and bytes, as far as they are known; of a model that was not pruned, `before` alone."""
    first, last = (before, after) if after is not None else (None, before)
    if last is None:
        return []
    found = [_sized("Parameters", None if first is None else first.parameters, last.parameters, count_text)]
    if last.bytes is not None:
        found.append(_sized("Weights on disk", None if first is None else first.bytes, last.bytes, bytes_text))
    return found


def _sized(label: str, before: int | None, after: int, text: Callable[[int], str]) -> Fact:
    if before is None:
        return Fact(label=label, value=text(after))
    return Fact(label=label, value=text(after), before=text(before), note=_change(before, after))


def state_fact(plan: Plan | None, layers: Sequence[LayerView]) -> Fact:
    if plan is None:
        total = sum(layer.counted for layer in layers)
        return Fact(label="States", value=f"{total:,}", note=f"in {layers_text(len(layers))}")
    return Fact(label="States", value=f"{plan.kept:,}", before=f"{plan.states:,}", note=_change(plan.states, plan.kept))


def measured_facts(found: Measured | None) -> list[Fact]:
    if found is None:
        return []
    (full, _, _), (value, low, high) = found.before, found.after
    middle, slow, fast = found.speedup
    where = f"{found.examples:,} test examples of {found.task}"
    return [
        Fact(
            label=found.metric.capitalize(),
            value=found.text(value),
            before=found.text(full),
            note=f"95 % interval {found.text(low)} to {found.text(high)}; {where}",
        ),
        Fact(
            label="Speed",
            value=f"{middle:.2f}×" if fast <= NOISY * slow else "unclear",
            note=f"forward pass, quartiles {slow:.2f} to {fast:.2f}; {found.threads} threads of this CPU",
        ),
    ]


def verdict_of_plan(plan: Plan, layers: Sequence[LayerView], found: Measured | None, applied: bool) -> str:
    """One sentence or two about a plan, and what was measured or proved."""
    what = f"{plan.states - plan.kept:,} of {plan.states:,} states ({share(plan.achieved_ratio)})"
    gone = f"{what} are gone" if applied else f"The plan takes out {what}; nothing has been written yet"
    if found is not None:
        return f"{gone}, {_loss(found)}"
    errors = [layer.certificate["relative_h2"] for layer in layers if layer.certificate is not None]
    if not errors:
        return f"{gone}. What that does to a task was not measured."
    return (
        f"{gone}. The state space part of a layer changes by {share(min(errors))} to {share(max(errors))} (exact H2 error, "
        "white inputs); what that does to a task was not measured."
    )


def verdict_of_model(layers: Sequence[LayerView]) -> str:
    """Of a checkpoint as it is."""
    total = sum(layer.counted for layer in layers)
    needed = sum(_holding(layer.energy, HELD) for layer in layers)
    found = f"{total:,} states in {layers_text(len(layers))}."
    if needed >= total:
        whole = f"It takes all of them to hold {share(HELD)} of every layer's energy"
        return f"{found} {whole}; what can still go, only a task can tell."
    return (
        f"{found} {needed:,} of them hold {share(HELD)} of every layer's energy; whether the others can go, only a task can "
        "tell."
    )


def verdict_of_sweep(sweep: SweepView) -> str:
    """What the paper's method and the best variant may remove."""
    unit = "point" if sweep.accuracy else "% of the bits per byte"
    allowed = f"{sweep.drop:g} {unit}{'s' if sweep.accuracy and sweep.drop != 1 else ''}"
    best = max(sweep.curves, key=lambda curve: (curve.safe, curve.name == "aire"))
    named = [curve for curve in sweep.curves if curve.name == "aire" and curve is not best]
    first, *others = [*named, best]
    found = [f"{first.name} may remove {share(first.safe)} of the states"]
    found += [f"{curve.name} {share(curve.safe)}" for curve in others]
    at = next(point for point in best.points if point.ratio == best.safe)
    full, value = (f"{v:.1f} %" if sweep.accuracy else f"{v:.3f} bits per byte" for v in (sweep.full.test, at.test))
    there = f"With {best.name} it reaches {value}" if others else f"There it reaches {value}"
    return (
        f"On {sweep.task}, {', '.join(found)}, within {allowed} on validation data. {there} on {sweep.examples:,} test "
        f"examples; the full model, {full}."
    )


def sweep_facts(sweep: SweepView, speeds: dict[str, float]) -> list[Fact]:
    """The safe ratio of aire, or of the first variant, and what it brings."""
    curve = next((curve for curve in sweep.curves if curve.name == "aire"), sweep.curves[0])
    at = next(point for point in curve.points if point.ratio == curve.safe)
    text = "{:.1f} %" if sweep.accuracy else "{:.3f}"
    facts = [
        Fact(label=f"Safe ratio of {curve.name}", value=share(curve.safe), note="of the states, chosen on validation"),
        Fact(
            label=sweep.metric.capitalize(),
            value=text.format(at.test),
            before=text.format(sweep.full.test),
            note=f"95 % interval {text.format(at.low)} to {text.format(at.high)}",
        ),
        Fact(
            label="Parameters",
            value=count_text(at.parameters),
            before=count_text(sweep.full.parameters),
            note=_change(sweep.full.parameters, at.parameters),
        ),
    ]
    if curve.name in speeds:
        facts.append(Fact(label="Speed", value=f"{speeds[curve.name]:.2f}×", note="forward pass on a CPU"))
    return facts


def _loss(found: Measured) -> str:
    full, value = found.text(found.before[0]), found.text(found.after[0])
    p = "p < 0.001" if found.p < 0.001 else f"p = {found.p:.2g}"
    numbers = f"{found.metric} {value} against {full} of the full model on {found.examples:,} examples, {p}"
    if found.p >= SURE or found.loss <= 0:
        return f"and no loss was measured: {numbers}."
    cost = f"{found.loss:.1f} points" if found.accuracy else f"{found.loss:.1f} % more bits per byte"
    return f"which costs {cost}: {numbers}."


def _holding(energy: np.ndarray, part: float) -> int:
    """How many of the best states hold a share of the summed energy."""
    ordered = np.sort(np.nan_to_num(energy))[::-1]
    total = ordered.sum()
    return int(np.searchsorted(np.cumsum(ordered), part * total) + 1) if total > 0 else 0


def _change(before: int, after: int) -> str:
    if not before:
        return ""
    change = after / before - 1
    return f"−{share(-change, 1)}" if change < 0 else f"+{share(change, 1)}" if change > 0 else "unchanged"


def share(value: float, digits: int = 0) -> str:
    """A share in per cent, on one line with its sign."""
    return f"{100 * value:.{digits}f} %"


def layers_text(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"
