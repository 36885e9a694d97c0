"""From layers and a request to a plan: score, select, and write down why (docs/method.md section 3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aireprune.errors import AireError
from aireprune.families import FAMILIES, Found, LTIFamily, lti_family
from aireprune.method.decision import Scoring, check_stability, decide, energies, energy_share, score_states
from aireprune.method.evidence import Evidence
from aireprune.method.reductions import find_reduction, hankel_scores
from aireprune.method.rows import shorten_rows
from aireprune.pruning.fitting import allowed_sizes, check_plan
from aireprune.pruning.plan import LayerPlan, Plan
from aireprune.pruning.request import Job, Request
from aireprune.pruning.selective import require_heads, selective_scores
from aireprune.pruning.source import Source

LTI_ONLY = ("refit", "balanced")


def make_plan(found: Found, request: Request, evidence: Evidence | None = None, source: str | None = None) -> Plan:
    """Decide which states stay. source: the checkpoint that `found` is of, for `aire certify`."""
    evidence = evidence or Evidence()
    states = found.states()
    check_stability(states, request.unstable)
    check_reduction(found, request.reduce)
    if request.reduce in LTI_ONLY:
        check_stability(states, "refuse")
    _check_fewest(request.budget.min_states, found)
    scoring = Scoring(method=request.method, horizon=request.horizon, seed=request.seed, evidence=evidence)
    if request.reduce == "balanced":
        scores = held = layer_hankel_scores(found, request.horizon, evidence)
    elif request.reduce == "projected":
        scores = held = selective_scores(found, request.reduce, evidence)
    elif request.reduce == "fitted":
        scores, held = selective_scores(found, request.reduce, evidence), energies(states)
    else:
        scores, held = score_states(states, scoring), energies(states)
    rule = replace(request.rule, counts=evidence.counts, sizes=allowed_sizes(request.target, found.layers))
    decision = decide(states, scores, request.budget, rule)
    if request.short_rows:
        decision = shorten_rows(decision, scores, [layer.rows for layer in found.layers])
    plan = Plan(
        method=request.method,
        ratio=request.budget.ratio,
        threshold=decision.threshold,
        by_threshold=request.budget.threshold is not None,
        min_states=request.budget.min_states,
        epsilon=request.epsilon,
        horizon=request.horizon,
        seed=request.seed,
        layout=request.layout,
        granularity=request.granularity,
        fingerprint=found.fingerprint(),
        layers=tuple(
            LayerPlan(
                name=layer.name,
                family=layer.family,
                states=layer.states,
                kept=tuple(map(int, kept)),
                energy_kept=energy_share(values, kept),
                silent=int(of_layer.silent.sum()),
            )
            for layer, of_layer, kept, values in zip(found.layers, states, decision.kept, held, strict=True)
        ),
        reduce=request.reduce,
        round_to=request.round_to,
        source=source,
        state_axes=request.state_axes.texts,
        allocate=request.allocate,
        target=request.target,
    )
    check_plan(plan, found.layers)
    return plan


def check_reduction(found: Found, reduce: str) -> None:
    """Raise if a layer cannot be reduced in this way."""
    if find_reduction(reduce).selective:
        require_heads(found, reduce)
    for layer in found.layers if reduce in LTI_ONLY else ():
        if not isinstance(FAMILIES[layer.family], LTIFamily):
            lti_family(layer, f"reduce={reduce!r}", "Use reduce='truncate'.")


def is_linear(found: Found) -> bool:
    """Whether all layers are linear and time-invariant."""
    return all(isinstance(FAMILIES[layer.family], LTIFamily) for layer in found.layers)


def _check_fewest(min_states: int, found: Found) -> None:
    largest = max(layer.states for layer in found.layers)
    if not largest:
        raise AireError("No layer has a state left, so nothing could go.")
    if min_states > largest:
        raise AireError(
            f"No layer has min_states={min_states} states (the largest has {largest}), so nothing could go."
        )


def layer_hankel_scores(found: Found, horizon: int | None = None, evidence: Evidence | None = None) -> list[np.ndarray]:
    """Squared Hankel singular values of every removable state of every layer, what balanced truncation ranks by."""
    scores = []
    for number, layer in enumerate(found.layers):
        family = lti_family(layer, "reduce='balanced'", "Use reduce='truncate'.")
        covariance = None if evidence is None else evidence.covariance(number)
        values = hankel_scores(family.system(layer, found.arrays), covariance, horizon)
        scores.append(np.bincount(family.members(layer).ravel(), values.ravel(), minlength=layer.states))
    return scores


def plan_of(source: Source, job: Job, evidence: Evidence) -> Plan:
    """The plan that was given, checked, or a new one."""
    if job.plan is None:
        assert job.request is not None
        return make_plan(source, job.request, evidence, source.origin)
    job.plan.check(source)
    return replace(job.plan, source=source.origin or job.plan.source).named_after(source.layers)
