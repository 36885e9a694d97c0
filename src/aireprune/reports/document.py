"""What a page holds, as types: gathered in Python, written as JSON, drawn by the scripts in `assets`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A number that a decision rests on. before: the same of the full model, where there is one to compare with."""

    label: str
    value: str
    before: str | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Poles:
    """Discrete poles as log|lambda| and arg lambda. (n,) float32 each"""

    log_radius: np.ndarray
    angle: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Response:
    """Gains of a linear layer, before and after, and of the difference.

    impulse: Frobenius norm of the response at `steps`. gain: largest singular value at the frequencies `omega`, in radians
    per step. Both (3, …) float32: full, reduced, error.
    """

    steps: np.ndarray
    impulse: np.ndarray
    omega: np.ndarray
    gain: np.ndarray


@dataclass(frozen=True, kw_only=True)
class LayerView:
    """A layer's states.

    states: removable ones, of which `counted` have a gain. groups, rows: as in `aireprune.families.Layer`. modes: per
    state. poles: of every state's slowest mode. energy: [energy], (n,) float64, NaN where a pole is unstable. scores: raw
    ones by criterion, (n,) float64; `energy` stands in for a criterion of that name. hankel: squared Hankel singular
    values, two per state added up. kept: indices that stay. after: poles of the reduced layer, where its states are new
    ones. coupling: (n, n) float32, the energy that states i and j hold together; the sum over removed states is the
    exact squared H2 error. per_size: parameters that one state is (in each group or row).
    """

    name: str
    family: str
    states: int
    counted: int
    groups: int
    rows: int
    modes: int
    poles: Poles
    energy: np.ndarray
    scores: Mapping[str, np.ndarray]
    hankel: np.ndarray | None = None
    kept: np.ndarray | None = None
    after: Poles | None = None
    coupling: np.ndarray | None = None
    per_size: int = 0
    response: Response | None = None
    certificate: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A method that the page can plan with."""

    name: str
    criterion: str
    prefix: bool
    scope: str
    summary: str


@dataclass(frozen=True, kw_only=True)
class ModelView:
    """The layers, the methods whose scores are there, and what a plan of them looks like.

    plan: as plan.json has it, without what layers keep; a page with controls starts from it. packed: rows of modes are
    stored without filling. short_rows: see `pruning.request.Request`. parameters: of the whole model.
    """

    name: str
    layers: tuple[LayerView, ...]
    methods: tuple[Choice, ...]
    plan: Mapping[str, Any] | None
    packed: bool = False
    short_rows: bool = False
    parameters: int | None = None


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """One ratio of a variant, in the units of the metric as people read it; kept: share of every layer."""

    ratio: float
    removed: float
    test: float
    low: float
    high: float
    sd: float | None
    p: float
    parameters: int
    kept: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class SweepCurve:
    name: str
    emphasised: bool
    safe: float
    points: tuple[SweepPoint, ...]


@dataclass(frozen=True, kw_only=True)
class SweepView:
    """What a sweep found. reported: where aire is safe on the paper's larger model, in per cent, and its loss in points."""

    task: str
    metric: str
    accuracy: bool
    examples: int
    drop: float
    chance: float | None
    full: SweepPoint
    layers: tuple[str, ...]
    curves: tuple[SweepCurve, ...]
    reported: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Making:
    """How to get the same again. commands: in the order to type them. facts: label and value."""

    commands: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A page. explore: it has controls that change the plan."""

    title: str
    subtitle: str
    verdict: str
    facts: tuple[Fact, ...]
    making: Making
    model: ModelView | None = None
    sweep: SweepView | None = None
    notices: tuple[str, ...] = ()
    explore: bool = False
