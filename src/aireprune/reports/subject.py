"""What a report is about: a model or checkpoint, pruned or not, a plan, or a sweep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from aireprune.errors import AireError
from aireprune.files.single import beside
from aireprune.method.selection import Budget
from aireprune.pruning.plan import Plan
from aireprune.pruning.planning import make_plan
from aireprune.pruning.request import Request
from aireprune.pruning.source import ConfigLike, FileSource, ModuleSource, open_source

if TYPE_CHECKING:
    from torch import nn

    from aireprune.reports.sweeps import Sweep

    Original = nn.Module | str | Path | FileSource | ModuleSource | None

AnySource = FileSource | ModuleSource


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What was found. full: the model before pruning; pruned: after; each None if it is not there.

    name: for the title. notices: what a reader should know about what is missing.
    """

    name: str
    full: AnySource | None = None
    plan: Plan | None = None
    pruned: AnySource | None = None
    sweep: Sweep | None = None
    notices: tuple[str, ...] = ()


def find_subject(what: nn.Module | str | Path, against: Original = None, config: ConfigLike = None) -> Subject:
    """what: a model, or the path of a checkpoint, a plan or a sweep's folder. against: the original, if not the plan's."""
    if not isinstance(what, str | Path):
        plan = getattr(what, "plan", None)
        return _of_model(what, plan if isinstance(plan, Plan) else None, against, config)
    path = Path(what)
    if (path / "summary.json").is_file() and (path / "sweep.json").is_file():
        return _of_sweep(path, against, config)
    if path.is_file() and path.suffix == ".json":
        return _of_plan(path, Plan.load(path), against, config)
    saved = path / "plan.json" if path.is_dir() else beside(path, "plan.json")
    return _of_model(path, Plan.load(saved) if saved.is_file() else None, against, config)


def _of_model(what: nn.Module | str | Path, plan: Plan | None, against: Original, config: ConfigLike) -> Subject:
    name = Path(what).name if isinstance(what, str | Path) else type(what).__name__
    if plan is None:
        if against is not None:
            raise AireError(f"{name} has no plan, so it cannot be compared with an original: give a pruned model.")
        source = open_source(what, config)
        return Subject(name=name, full=source, notices=source.notices)
    pruned = open_source(what, None, replace(plan.units, even=False))
    full, notices = _original(plan, against, config)
    return Subject(name=name, full=full, plan=plan, pruned=pruned, notices=notices)


def _of_plan(path: Path, plan: Plan, against: Original, config: ConfigLike) -> Subject:
    full, notices = _original(plan, against, config)
    if full is None:
        raise AireError(f"{path}: {notices[0]}")
    return Subject(name=path.name, full=full, plan=plan, notices=notices)


def _of_sweep(path: Path, against: Original, config: ConfigLike) -> Subject:
    """With the model that was swept, if it is there, at the ratio that method aire is safe at."""
    from aireprune.reports.sweeps import read_sweep

    sweep = read_sweep(path)
    where = against if against is not None else sweep.source
    if where is None:
        notice = f"{path} does not name a model that is there, so its states are not shown; give it with original=."
        return Subject(name=path.name, sweep=sweep, notices=(notice,))
    source = where if isinstance(where, FileSource | ModuleSource) else open_source(where, config)
    if source.fingerprint() != sweep.swept.get("fingerprint"):
        raise AireError(f"{source.name} is not the model that was swept in {path}: its weights are others.")
    curve = sweep.summary.variants.get("aire")
    if curve is None:
        return Subject(name=path.name, full=source, sweep=sweep)
    wanted = Request(budget=Budget(ratio=curve.safe_ratio), method="aire", reduce="truncate", layout="adaptive")
    plan = make_plan(source, wanted, source=source.origin)
    return Subject(name=path.name, full=source, plan=plan, sweep=sweep)


def _original(plan: Plan, against: Original, config: ConfigLike) -> tuple[AnySource | None, tuple[str, ...]]:
    """The model that the plan was made from, checked, and what to say if it is missing."""
    if against is None and (plan.source is None or not Path(plan.source).exists()):
        named = "names no original" if plan.source is None else f"names {plan.source}, which is not there"
        return None, (f"The plan {named}: what was removed is not shown. Give the original with original=.",)
    source = _opened(plan.source if against is None else against, config, plan)
    plan.check(source)
    return source, source.notices


def _opened(what: Original, config: ConfigLike, plan: Plan) -> AnySource:
    assert what is not None
    return what if isinstance(what, FileSource | ModuleSource) else open_source(what, config, plan.units)
