"""What is asked for: which states to remove, what becomes of the others, and what may be measured on the way.

The public functions take these as keyword arguments (`PlanChoices`, `PruneChoices`), the command line as flags. Both
become one `Request` and one `Job` before any work starts, and what does not fit together is refused here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from aireprune.errors import AireError, did_you_mean
from aireprune.families import StateAxes, Units
from aireprune.files.shards import ShardWork
from aireprune.method.evidence import Evidence
from aireprune.method.methods import find_method
from aireprune.method.reductions import find_reduction
from aireprune.method.selection import Budget, Rule
from aireprune.pruning.fitting import check_choices
from aireprune.pruning.plan import Plan, check_allocation, check_layout

if TYPE_CHECKING:
    from aireprune.calibration.inputs import InputSource

CALIBRATION_COUNT = 256
CALIBRATION_TOKENS = 2**16
RECOVERY_COUNT = 20_000
AUTO = "auto"  # a choice that `aireprune.pruning.defaults` makes once the model is known


class PlanChoices(TypedDict, total=False):
    """Keyword arguments of `aireprune.plan` besides method and ratio; see `Request` and `Evidence` for their meaning."""

    threshold: float | None
    min_states: int
    epsilon: float
    horizon: int | None
    seed: int
    unstable: str
    layout: str
    granularity: str
    state_axis: Sequence[str]
    round_to: int
    reduce: str
    allocate: str
    target: str | None
    covariances: Sequence[np.ndarray | None] | None
    measured: Sequence[np.ndarray | None] | None


class PruneChoices(PlanChoices, total=False):
    """Keyword arguments of `aireprune.prune` and `aireprune.prune_file`."""

    method: str
    ratio: float | None
    mask: bool
    force: bool
    calibrate: InputSource | None
    calibrate_count: int
    calibrate_tokens: int
    layer_inputs: str | Path | None
    recover: float | None
    recover_steps: int | None
    recover_count: int
    resume: bool
    ray: str | None


@dataclass(frozen=True, kw_only=True)
class Request:
    """Everything that decides a plan, besides the model.

    method, reduce and layout may be left open (`AUTO`); a plan is made once they are settled. method: one of
    `aireprune.method.methods`. budget: a ratio or a threshold, and what every layer keeps at least.
    epsilon: added to the prefix sums. horizon: energies and Gramians of the first so many steps only. seed: of method
    'random'. unstable: 'refuse' poles with |lambda| >= 1, or 'keep' them whatever happens. layout: see `plan.LAYOUTS`.
    granularity (S4D), state_axes: see `Units`; the latter are given as state_axis=['NAME=AXIS', …]. round_to: counts are
    rounded up to a multiple. reduce: what becomes of the states that stay, one of `aireprune.method.reductions`.
    fallback: where that reduction does not suit a layer, states are removed as they are instead of an error. short_rows
    (S4D): rows will be stored as long as the longest, so the longest ones give modes to others where that
    costs little (`aireprune.method.rows`). allocate: what decides how many states each layer keeps, see
    `plan.ALLOCATIONS`. target: the engine that the result is made for, one of `targets.TARGETS`.
    """

    budget: Budget
    method: str = AUTO
    epsilon: float = 0.0
    horizon: int | None = None
    seed: int = 0
    unstable: str = "refuse"
    layout: str = AUTO
    granularity: str = "mode"
    state_axes: StateAxes = field(default_factory=StateAxes)
    round_to: int = 1
    reduce: str = AUTO
    fallback: bool = False
    short_rows: bool = False
    allocate: str = "scores"
    target: str | None = None

    def __post_init__(self) -> None:
        check_allocation(self.allocate)
        check_choices(self)
        if self.allocate == "measured" and (self.layout in ("uniform", "padded") or self.budget.ratio is None):
            raise AireError(
                "allocate='measured' decides how many states every layer keeps of a given share: it takes a ratio=, and no "
                "layout= with one size for all."
            )
        for name, check in ((self.method, find_method), (self.reduce, find_reduction), (self.layout, check_layout)):
            if name != AUTO:
                check(name)
        _ = self.units, self.rule
        if self.seed < 0:
            raise AireError(f"The seed is a whole number, 0 or more; got {self.seed}.")
        if self.reduce in ("balanced", "projected", "fitted") and self.method not in ("aire", AUTO):
            what = "Balanced truncation" if self.reduce == "balanced" else f"reduce={self.reduce!r}"
            by = "Hankel singular values" if self.reduce == "balanced" else "what their loss costs on data"
            raise AireError(
                f"{what} ranks its own states by {by}, in the way method 'aire' ranks energies; method {self.method!r} "
                "cannot be combined with it."
            )

    @property
    def is_open(self) -> bool:
        """Whether anything is left to choose."""
        return AUTO in (self.method, self.reduce, self.layout)

    @property
    def units(self) -> Units:
        return Units(granularity=self.granularity, even=self.layout == "uniform", state_axes=self.state_axes)

    @property
    def rule(self) -> Rule:
        method = find_method("aire" if self.method == AUTO else self.method)
        return Rule(
            prefix=method.prefix,
            scope=method.scope,
            epsilon=self.epsilon,
            round_to=self.round_to,
            same_size=self.layout == "uniform",
        )


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Unlabelled inputs of the model, or of its layers, and how much of them to use.

    source: batches, an array, a task's name, a .npy or .npz file, a folder of them, or a text. count: sequences, tokens:
    of a text. layer_inputs: a folder with one array per layer, where no model can be built.
    """

    source: InputSource | None = None
    count: int = CALIBRATION_COUNT
    tokens: int = CALIBRATION_TOKENS
    layer_inputs: Path | None = None

    def __post_init__(self) -> None:
        if self.source is not None and self.layer_inputs is not None:
            raise AireError("Inputs of the model (calibrate=) and of its layers (layer_inputs=) cannot be combined.")


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """How long the pruned model learns from the full one: so many minutes or, whatever time they take, so many steps.

    count: sequences to learn from at most, from the source of the calibration; of a text, windows.
    """

    minutes: float | None = None
    steps: int | None = None
    count: int = RECOVERY_COUNT

    def __post_init__(self) -> None:
        if (self.minutes is None) == (self.steps is None):
            raise AireError("Recovery takes either a time (recover=MINUTES) or a number of steps (recover_steps=N).")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise AireError(f"Recovery takes a time above 0, in minutes; got recover={self.minutes:g}.")
        if self.steps is not None and self.steps < 1:
            raise AireError(f"Recovery takes at least one step; got recover_steps={self.steps}.")


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to do to a model or checkpoint: follow a request or a plan, mask or remove, calibrate or not, recover or not.

    force: write a layer that lost almost everything although it keeps many states (`harm.LOST`). certified: the plan gets
    bounds and exact errors of every layer, which take longer to find than a small layer takes to prune, and destroyed layers
    are looked for. shards: how those of
    a large folder are written; resume= and ray= among the keyword arguments.
    """

    request: Request | None = None
    plan: Plan | None = None
    evidence: Evidence = field(default_factory=Evidence)
    calibration: Calibration | None = None
    recovery: Recovery | None = None
    mask: bool = False
    force: bool = False
    certified: bool = True
    shards: ShardWork = field(default_factory=ShardWork)

    def __post_init__(self) -> None:
        if self.recovery is not None and not self._has_inputs:
            raise AireError("Recovery learns from unlabelled inputs of the model: give them with calibrate=.")
        if self.recovery is not None and self.calibration is not None and isinstance(self.calibration.source, Iterator):
            raise AireError(
                "Recovery goes through the inputs more than once, which an iterator does not allow: give a list of batches."
            )
        if (self.request is None) == (self.plan is None):
            raise AireError(
                "Give either a plan, or a ratio or threshold and options; the plan already says what to keep."
            )
        if self.request is not None and self.request.allocate == "measured" and not self._has_inputs:
            raise AireError("allocate='measured' needs unlabelled inputs of the model: give them with calibrate=.")
        if self.mask and self.reduce not in ("truncate", AUTO):
            raise AireError(
                f"A mask leaves every state as it is or silences it, so it cannot go with reduce={self.reduce!r}."
            )
        measured = self._has_inputs or self.evidence.covariances
        if self.reduce != AUTO and find_reduction(self.reduce).selective and not measured:
            raise AireError(
                f"reduce={self.reduce!r} needs unlabelled inputs, on which the gates of every layer are measured: give "
                "calibrate=."
            )

    @property
    def needs_the_model(self) -> bool:
        """Whether the full model has to be in memory as a whole."""
        return self.recovery is not None or (self.request is not None and self.request.allocate == "measured")

    @property
    def _has_inputs(self) -> bool:
        return self.calibration is not None and self.calibration.source is not None

    @property
    def reduce(self) -> str:
        return self._decided.reduce

    @property
    def units(self) -> Units:
        return self._decided.units

    @property
    def _decided(self) -> Request | Plan:
        found = self.plan or self.request
        assert found is not None
        return found


def make_request(method: str, ratio: float | None, choices: PlanChoices) -> tuple[Request, Evidence]:
    """The request that keyword arguments make, and the evidence among them."""
    if not isinstance(method, str):
        raise AireError(f"method= is a name, such as 'aire'; got {method!r}. How much is to go is ratio=.")
    values: dict[str, Any] = dict(choices)
    evidence = Evidence(covariances=values.pop("covariances", None), scores=values.pop("measured", None))
    known = sorted(PruneChoices.__optional_keys__)
    for name in sorted(set(values) - PlanChoices.__optional_keys__):
        if name in known:
            raise AireError(f"{name}= is said when a plan is applied: aireprune.prune(model, plan, {name}=…).")
        raise AireError(f"There is no argument {name}=.{did_you_mean(name, known)} Arguments: {', '.join(known)}.")
    budget = Budget(ratio, values.pop("threshold", None), values.pop("min_states", 1))
    axes = StateAxes.parse(values.pop("state_axis", ()))
    return Request(budget=budget, method=method, state_axes=axes, **values), evidence


def make_job(plan: Plan | None, choices: PruneChoices) -> Job:
    """The job that a plan or keyword arguments make."""
    values: dict[str, Any] = dict(choices)
    how = {"mask": values.pop("mask", False), "force": values.pop("force", False), "recovery": _recovery(values)}
    how["shards"] = ShardWork(resume=values.pop("resume", False), ray=values.pop("ray", None))
    source = values.pop("calibrate", None)
    count = values.pop("calibrate_count", CALIBRATION_COUNT)
    tokens, folder = values.pop("calibrate_tokens", CALIBRATION_TOKENS), values.pop("layer_inputs", None)
    calibration = None
    if source is not None or folder is not None:
        layers = None if folder is None else Path(folder)
        calibration = Calibration(source=source, count=count, tokens=tokens, layer_inputs=layers)
    if plan is None:
        request, evidence = make_request(values.pop("method", AUTO), values.pop("ratio", None), values)  # type: ignore[arg-type]
        return Job(request=request, evidence=evidence, calibration=calibration, **how)
    if not isinstance(plan, Plan):
        raise AireError(f"plan is a Plan (aireprune.plan, Plan.load), not a {type(plan).__name__}; a share is ratio=…")
    evidence = Evidence(covariances=values.pop("covariances", None))
    if values:
        raise AireError("The plan already says what to keep; give either a plan, or a ratio or threshold and options.")
    return Job(plan=plan, evidence=evidence, calibration=calibration, **how)


def _recovery(values: dict[str, Any]) -> Recovery | None:
    """Taken from keyword arguments."""
    minutes, steps = values.pop("recover", None), values.pop("recover_steps", None)
    count = values.pop("recover_count", RECOVERY_COUNT)
    return None if minutes is None and steps is None else Recovery(minutes=minutes, steps=steps, count=count)
