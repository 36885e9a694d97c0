"""A plan: which states of which layers stay, why, and for which checkpoint."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aireprune.errors import AireError
from aireprune.families.base import Layer, NamedArrays
from aireprune.files.atomic import atomic_path
from aireprune.method.criteria import CRITERIA, WITH_HORIZON, Settings
from aireprune.method.methods import method as find_method
from aireprune.method.methods import reduction
from aireprune.method.selection import Budget, select
from aireprune.method.states import LayerStates

SCHEMA = 1
THREADS = 2  # for hashing, which does not hold the interpreter lock
GRANULARITIES = ("mode", "state")
LAYOUTS = {
    "adaptive": "every layer has its own size",
    "uniform": "all layers keep equally many states",
    "padded": "chosen as adaptive, then filled up with silent states to the size of the largest layer",
}


@dataclass(frozen=True)
class LayerPlan:
    """What stays of one layer.

    With `reduce` balanced, the new states of a layer (or S4D channel) are numbered from the strongest on, and `kept`
    are the first ones of these numbers; their energies are the squared Hankel singular values.
    """

    name: str
    family: str
    states: int
    kept: tuple[int, ...]
    energy_kept: float  # share of the layer's summed [energy] that the kept states hold (stable states only)

    @property
    def ratio(self) -> float:
        return 1 - len(self.kept) / self.states if self.states else 0.0


@dataclass(frozen=True)
class Plan:
    """The kept states of every layer, and everything that led to them."""

    method: str
    ratio: float | None
    threshold: float  # the score from which states were kept
    by_threshold: bool  # the user gave the threshold; otherwise it follows from the ratio
    min_states: int
    epsilon: float
    horizon: int | None
    seed: int
    layout: str  # adaptive, uniform or padded: see `LAYOUTS`
    granularity: str  # S4D: mode (every channel chooses its own) or state (one index for all channels)
    fingerprint: str  # of the checkpoint the plan was made from
    layers: tuple[LayerPlan, ...]
    reduce: str = "truncate"  # what becomes of the kept states: see `registry.REDUCTIONS`
    round_to: int = 1
    source: str | None = None  # the checkpoint it was made from, for `aire certify`
    calibrated: int = 0  # unlabelled sequences that the readouts were then fitted on
    certificate: tuple[dict[str, Any], ...] | None = None  # per layer, once applied: `certificate.LayerCertificate`

    @property
    def states(self) -> int:
        return sum(layer.states for layer in self.layers)

    @property
    def kept(self) -> int:
        return sum(len(layer.kept) for layer in self.layers)

    @property
    def achieved_ratio(self) -> float:
        """Share of states that really goes, after rounding and min_states."""
        return 1 - self.kept / self.states if self.states else 0.0

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        values["threshold"] = None if math.isinf(self.threshold) else self.threshold
        return {"schema": SCHEMA, **values}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    def save(self, path: str | Path) -> None:
        with atomic_path(Path(path)) as temporary:
            temporary.write_text(self.to_json())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "plan") -> Plan:
        if not isinstance(values, Mapping) or values.get("schema") != SCHEMA:
            found = values.get("schema") if isinstance(values, Mapping) else type(values).__name__
            raise AireError(f"{where}: plan schema {found!r} is not the one this version reads ({SCHEMA}).")
        fields = {key: value for key, value in values.items() if key != "schema"}
        try:
            fields["layers"] = tuple(LayerPlan(**{**layer, "kept": tuple(layer["kept"])}) for layer in fields["layers"])
            if fields.get("certificate") is not None:
                fields["certificate"] = tuple(fields["certificate"])
            fields["threshold"] = math.inf if fields["threshold"] is None else fields["threshold"]
            plan = cls(**fields)
        except (KeyError, TypeError) as problem:
            raise AireError(f"{where}: not a complete plan ({problem}).") from None
        plan._validate(where)
        return plan

    def _validate(self, where: str) -> None:
        """A plan that was edited by hand, or broken, is refused before it touches anything."""
        find_method(self.method)
        reduction(self.reduce)
        check_layout(self.layout, self.granularity)
        for layer in self.layers:
            whole = isinstance(layer.states, int) and all(type(index) is int for index in layer.kept)
            if not whole or list(layer.kept) != sorted(set(layer.kept) & set(range(layer.states))):
                raise AireError(
                    f"{where}: the kept states of layer {layer.name} must be ascending whole numbers from 0 to "
                    f"{layer.states} - 1."
                )

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        try:
            values = json.loads(Path(path).read_text())
        except FileNotFoundError:
            raise AireError(f"There is no plan file {path}.") from None
        except (OSError, ValueError) as problem:
            raise AireError(f"{path} is not a plan: {problem}.") from None
        return cls.from_dict(values, str(path))

    def check(self, layers: Sequence[Layer], arrays: NamedArrays) -> None:
        """Raise unless the plan was made from exactly these layers."""
        if [layer.states for layer in layers] != [layer.states for layer in self.layers]:
            raise AireError(
                f"The plan was made for another model: it has {_sizes(self.layers)}, this one has {_sizes(layers)}."
            )
        if fingerprint(layers, arrays) != self.fingerprint:
            raise AireError(
                "The plan was made from another checkpoint: the shapes agree but the weights of the state space layers "
                "do not. Make a new plan from this one."
            )


def check_layout(layout: str, granularity: str) -> None:
    """Raise unless both are known."""
    if layout not in LAYOUTS:
        raise AireError(f"There is no layout {layout!r}. Layouts: {', '.join(LAYOUTS)}.")
    if granularity not in GRANULARITIES:
        raise AireError(f"The granularity is {' or '.join(GRANULARITIES)}, not {granularity!r}.")


def _sizes(layers: Sequence[Layer] | Sequence[LayerPlan]) -> str:
    return f"{len(layers)} layers with {', '.join(str(layer.states) for layer in layers)} states"


def fingerprint(layers: Sequence[Layer], arrays: NamedArrays) -> str:
    """A hash of every array of every state space layer: the same for a file and for the module loaded from it."""

    def digest(layer: Layer) -> bytes:
        found = hashlib.blake2b(digest_size=32)
        for role in sorted(layer.arrays):
            values = np.asarray(arrays[layer.arrays[role]])
            dtype = np.complex64 if np.iscomplexobj(values) else np.float32
            found.update(f"{layer.family} {role} {values.shape};".encode())
            found.update(np.ascontiguousarray(values, dtype).data)
        return found.digest()

    with ThreadPoolExecutor(THREADS) as pool:
        return hashlib.blake2b(b"".join(pool.map(digest, layers)), digest_size=32).hexdigest()


def make_plan(
    layers: Sequence[Layer],
    states: Sequence[LayerStates],
    fingerprint: str,
    method: str = "aire",
    budget: Budget | None = None,
    epsilon: float = 0.0,
    horizon: int | None = None,
    seed: int = 0,
    unstable: str = "refuse",
    round_to: int = 1,
    layout: str = "adaptive",
    granularity: str = "mode",
    reduce: str = "truncate",
    hankel: Sequence[np.ndarray] | None = None,
    source: str | None = None,
    measured: Sequence[np.ndarray | None] | None = None,
) -> Plan:
    """Score, select, and write down why. `unstable`: 'refuse' raises, 'keep' never removes an unstable state.

    hankel: squared Hankel singular values per layer, which are the scores if `reduce` is balanced.
    measured: scores per layer for a method that takes them from data.
    """
    check_layout(layout, granularity)
    if seed < 0:
        raise AireError(f"The seed is a whole number, 0 or more; got {seed}.")
    budget = budget or Budget(ratio=0.5)
    must = unstable_states(states, unstable)
    chosen = find_method(method)
    if reduction(reduce) != "truncate" and any(mark.any() for mark in must):
        raise AireError(f"--reduce {reduce} needs finite energies, so every pole must be stable (|lambda| < 1).")
    scores = score_states(states, method, horizon, seed, measured)
    energies = score_states(states, "aire")
    if reduce == "balanced":
        if method != "aire" or hankel is None:
            raise AireError(
                "Balanced truncation ranks its own states by Hankel singular values, in the way method 'aire' ranks "
                f"energies; method {method!r} cannot be combined with it."
            )
        scores = energies = list(hankel)
    slots = [_slots(values, layer.groups) for values, layer in zip(scores, states, strict=True)]
    by_slot = [
        [_in_slots(values, slot) for values, slot in zip(per_layer, slots, strict=True)] for per_layer in (scores, must)
    ]
    slot_scores = [values.sum(axis=0) for values in by_slot[0]]
    always = [np.asarray(values.any(axis=0)) for values in by_slot[1]]
    selection = select(
        slot_scores,
        budget,
        chosen.prefix,
        chosen.scope,
        epsilon,
        always,
        round_to,
        same_size=layout == "uniform",
    )
    planned = []
    for layer, slot, chosen_slots, energies_ in zip(layers, slots, selection.kept, energies, strict=True):
        first = np.arange(len(slot))[:, None] * slot.shape[1]  # index of each group's first state
        kept = np.sort((first + slot[:, chosen_slots]).ravel())
        planned.append(
            LayerPlan(layer.name, layer.family, layer.states, tuple(map(int, kept)), _share(energies_, kept))
        )
    return Plan(
        method=method,
        ratio=budget.ratio,
        threshold=selection.threshold,
        by_threshold=budget.threshold is not None,
        min_states=budget.min_states,
        epsilon=epsilon,
        horizon=horizon,
        seed=seed,
        layout=layout,
        granularity=granularity,
        fingerprint=fingerprint,
        layers=tuple(planned),
        reduce=reduce,
        round_to=round_to,
        source=source,
    )


def score_states(
    states: Sequence[LayerStates],
    method: str,
    horizon: int | None = None,
    seed: int = 0,
    measured: Sequence[np.ndarray | None] | None = None,
) -> list[np.ndarray]:
    """Raw scores per layer, before normalisation; NaN for unstable states, which have none."""
    criterion = find_method(method).criterion
    if horizon is not None and criterion not in WITH_HORIZON:
        raise AireError(f"A horizon belongs to the energy criterion; method {method!r} scores by {criterion}.")
    if horizon is not None and horizon < 1:
        raise AireError(f"The horizon is a number of time steps, 1 or more; got {horizon}.")
    scores = []
    for number, layer in enumerate(states):
        with np.errstate(divide="ignore", invalid="ignore"):  # unstable states, blanked below
            values = CRITERIA[criterion](layer, Settings(horizon, seed, number, measured[number] if measured else None))
        values[layer.unstable] = np.nan
        scores.append(values)
    return scores


def unstable_states(states: Sequence[LayerStates], policy: str) -> list[np.ndarray]:
    """Which states must stay because they cannot be scored; raises under the policy 'refuse' if there are any."""
    if policy not in ("refuse", "keep"):
        raise AireError(f"The policy for unstable states is 'refuse' or 'keep', not {policy!r}.")
    marks = [layer.unstable for layer in states]
    if policy == "refuse" and any(mark.any() for mark in marks):
        where = "; ".join(
            f"{layer.name} state {', '.join(map(str, np.flatnonzero(mark)[:8]))}{' …' if mark.sum() > 8 else ''}"
            for layer, mark in zip(states, marks, strict=True)
            if mark.any()
        )
        raise AireError(
            f"Unstable poles (|lambda| >= 1) have infinite energy and cannot be ranked: {where}. Allow them with "
            "unstable='keep' (--unstable keep): they then always stay and the others are ranked without them."
        )
    return marks


def _in_slots(values: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Values of states (n,) arranged by group and slot (groups, slots)."""
    return np.take_along_axis(values.reshape(slots.shape), slots, axis=1)


def _slots(scores: np.ndarray, groups: int) -> np.ndarray:
    """Which states are decided on together, (groups, slots): slot k holds one state of every group.

    One group: slot k is state k. Several groups must keep equally many, so slot k holds the k-th best of each.
    """
    if groups == 1:
        return np.arange(len(scores))[None, :]
    ranked = np.where(np.isnan(scores), np.inf, scores).reshape(groups, -1)
    return np.argsort(-ranked, axis=1, kind="stable")


def _share(energies: np.ndarray, kept: np.ndarray) -> float:
    total = float(np.nansum(energies))
    return float(np.nansum(energies[kept])) / total if total > 0 else 1.0
