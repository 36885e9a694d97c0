"""Which of our models stands beside which rival, at which sizes, and the ways in which it is made smaller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aireprune.errors import AireError, did_you_mean
from aireprune.experiments.paper.markdown import command
from aireprune.experiments.rivals.published import COMPRESSM, GHOST, HSVR, Rival
from aireprune.pruning.request import Job, make_job
from aireprune.zoo import PREFIX

TASK = "smnist"
LRU_STATES = 256


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to make a model smaller: keyword arguments of `aireprune.prune`, and what it is called on the page.

    measured_alone: inputs say which states go, and nothing is fitted to them; no one command does that.
    """

    name: str
    choices: Mapping[str, Any]
    measured_alone: bool = False

    def job(self, ratio: float) -> Job:
        return make_job(None, {**self.choices, "ratio": ratio, "force": True})  # type: ignore[typeddict-item]

    def command(self, model: str, ratio: float) -> str | None:
        """What a person types for this row."""
        if self.measured_alone:
            return None
        flags = {name.replace("_", "-"): value for name, value in self.choices.items()}
        return command(f"aire prune {model} -o OUT", {"ratio": f"{ratio:g}", **flags, "task": TASK})


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """name: what a checkpoint is given as. default: the models of the package that stand for it, which differ in their seed.

    shares: of the states that go, with the heads of their columns.
    """

    name: str
    title: str
    rival: Rival
    default: tuple[str, ...]
    shares: Mapping[str, float]
    selective: bool = False

    def ways(self, recover_steps: int) -> tuple[Way, ...]:
        """recover_steps: how long the last one learns from the full model; 0: there is no such row."""
        found = SELECTIVE if self.selective else LINEAR
        if not recover_steps:
            return found
        last = found[-1]
        name = f"{last.name}, then {recover_steps:,} steps of recovery"
        return (*found, Way(name=name, choices={**last.choices, "recover_steps": recover_steps}))


DATA = {"calibrate": TASK}
LINEAR = (
    Way(name="states dropped by energy (aire)", choices={"method": "aire", "reduce": "truncate"}),
    Way(name="balanced, without data", choices={"reduce": "balanced"}),
    Way(name="balanced, calibrated", choices={"reduce": "balanced", **DATA}),
)
BY_ENERGY = {"method": "aire-calibrated", "reduce": "truncate", **DATA}
SELECTIVE = (
    Way(name="dropped by measured energy, as GHOST does", choices=BY_ENERGY, measured_alone=True),
    Way(name="the same, readouts fitted", choices=BY_ENERGY),
    Way(name="projected", choices={"reduce": "projected", **DATA}),
    Way(name="fitted", choices={"reduce": "fitted", **DATA}),
)
REMOVED = {"70 % gone": 0.7, "80 % gone": 0.8, "90 % gone": 0.9}
COMPARISONS = (
    Comparison(
        name="s5",
        title="S5 trained plainly, pruned afterwards",
        rival=HSVR,
        default=(f"{PREFIX}smnist-s5-n128",),
        shares=REMOVED,
    ),
    Comparison(
        name="s5-hankel",
        title="a model trained with the regulariser here, pruned by us",
        rival=HSVR,
        default=(f"{PREFIX}smnist-s5-n128-hankel",),
        shares=REMOVED,
    ),
    Comparison(
        name="lru",
        title="LRU trained plainly, pruned afterwards",
        rival=COMPRESSM,
        default=(f"{PREFIX}smnist-lru",),
        shares={f"{kept} of {LRU_STATES} stay": 1 - kept / LRU_STATES for kept in (47, 28, 13)},
    ),
    Comparison(
        name="mamba2",
        title="Mamba-2 of digits",
        rival=GHOST,
        default=(f"{PREFIX}smnist-mamba2",),
        shares={"50 % gone": 0.5, "75 % gone": 0.75, "87.5 % gone": 0.875},
        selective=True,
    ),
)


def chosen(given: Iterable[str], only: Iterable[str] = ()) -> list[tuple[Comparison, tuple[str, ...]]]:
    """The comparisons that are wanted, each with its checkpoints.

    given: NAME=PATH, in place of the package's own; several of one name are models that differ in their seed. only: names;
    by default all.
    """
    known = [comparison.name for comparison in COMPARISONS]
    paths: dict[str, list[str]] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (equals and path):
            raise AireError(f"A model to stand beside the rivals is given as NAME=PATH, not {text!r}.")
        paths.setdefault(name, []).append(path)
    wanted = list(only) or known
    for name in (*paths, *wanted):
        if name not in known:
            hint = did_you_mean(name, known)
            raise AireError(f"No rival is compared with {name!r}.{hint} Names: {', '.join(known)}.")
    return [(one, tuple(paths.get(one.name, one.default))) for one in COMPARISONS if one.name in wanted]
