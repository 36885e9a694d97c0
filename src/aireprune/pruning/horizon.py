"""A horizon for balanced truncation where nobody named one.

Balanced states are ranked by their share in all that a layer would ever put out. States that remember more steps than
the model reads count for too much in that sum: most of what they put out is never seen. With inputs at hand, their length
is tried as horizon beside none, and what is closer to the full model on held-out inputs stays. Without inputs, a horizon is
taken from the model itself if some of its states outlive any input. `tools/horizons.py` measures what a horizon is worth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aireprune.errors import AireError
from aireprune.pruning.measuring import Measured, measure
from aireprune.pruning.request import Job, Request
from aireprune.pruning.source import ModuleSource, Source

if TYPE_CHECKING:
    from aireprune.calibration.inputs import Inputs
    from aireprune.pruning.outcome import Pruned

LONG = 10**5  # steps, more than the inputs of most models have
TYPICAL = 10  # times the median memory: in the zoo most states remember less
WAITS = 5.0  # seconds after which somebody who waits is told that there is a second way

Reduce = Callable[[Job, Measured], "Pruned"]


def lasting(source: Source, steps: int) -> int:
    """How many states remember more than so many steps: |lambda|^steps is above 1/e."""
    return sum(int((states.log_radius * steps > -1).any(1).sum()) for states in source.states())


def without_inputs(source: Source, request: Request) -> tuple[Request, str | None]:
    """A horizon for models that will be balanced without inputs, if some states outlive any input, and what to say of it."""
    found = lasting(source, LONG)
    if request.horizon is not None or not found:
        return request, None
    log_radius = np.concatenate([states.log_radius.ravel() for states in source.states()])
    memory = -1 / log_radius[np.isfinite(log_radius) & (log_radius < 0)]
    steps = max(1, round(TYPICAL * float(np.median(memory))))
    counted = "1 step was" if steps == 1 else f"{steps:,} steps were"
    return replace(request, horizon=steps), (
        f"{found} {'state remembers' if found == 1 else 'states remember'} more than {LONG:,} steps and would outweigh all "
        f"others, so only {counted} counted, {TYPICAL} times what the median state remembers. If you know how "
        "long inputs are, say so with horizon=, or give some with calibrate=."
    )


def within_inputs(
    source: ModuleSource,
    job: Job,
    inputs: Inputs | None,
    reduce: Reduce,
    known: Measured | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> Pruned:
    """What comes of a job, with the length of the inputs as horizon if a horizon was left open and that is closer.

    reduce: does a job when everything is known. known: what has been measured already. report: told of a second way.
    """
    if inputs is None or not _is_open(job):
        return reduce(job, known or measure(source, job, inputs))
    assert job.request is not None
    asked = job.request
    scored = replace(job, request=replace(asked, allocate="scores"))  # counts are measured when the horizon is known
    known = known or measure(source, scored, inputs)
    steps = 0 if known.subject is None else max(site.steps for site in known.subject.sites)
    notices: tuple[str, ...] = ()
    if steps and lasting(source, steps):
        limited = replace(scored, request=replace(asked, allocate="scores", horizon=steps))
        began = time.monotonic()
        endless = _attempt(reduce, scored, known)
        if time.monotonic() - began > WAITS:
            report(f"calibration: once more, counting the {steps:,} steps of the inputs only; what is closer stays")
        within = _attempt(reduce, limited, known)
        if isinstance(endless, AireError) and isinstance(within, AireError):
            raise endless
        done, far, near = endless, _divergence(endless), _divergence(within)
        if near < far:
            job, done = replace(job, request=replace(asked, horizon=steps)), within
            notices = (_said(steps, far, near),)
        if asked.allocate == "scores" and not isinstance(done, AireError):
            return replace(done, notices=(*notices, *done.notices))
    if asked.allocate != "scores":
        known = measure(source, replace(job, evidence=known.evidence), inputs)
    done = reduce(job, known)
    return replace(done, notices=(*notices, *done.notices))


def _is_open(job: Job) -> bool:
    """Whether states are balanced although nobody asked for that or for a horizon."""
    request = job.request
    return request is not None and request.reduce == "balanced" and request.fallback and request.horizon is None


def _attempt(reduce: Reduce, job: Job, known: Measured) -> Pruned | AireError:
    try:
        return reduce(job, known)
    except AireError as problem:
        return problem


def _divergence(found: Pruned | AireError) -> float:
    """From the full model on held-out inputs; infinite for what failed or was not compared."""
    if isinstance(found, AireError) or found.distance is None:
        return math.inf
    return found.distance.divergence


def _said(steps: int, endless: float, within: float) -> str:
    against = f" against {endless:.3g}" if math.isfinite(endless) else ""
    return (
        f"Some states remember more than the {steps:,} steps of the inputs, so only these steps were counted, as with "
        f"horizon={steps}: the divergence from the full model on held-out inputs is {within:.3g}{against}."
    )
