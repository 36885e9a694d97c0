"""From a subject to the document of its page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aireprune.errors import AireError
from aireprune.method.methods import find_method
from aireprune.pruning.plan import Plan
from aireprune.pruning.repeating import command, prune_command
from aireprune.pruning.source import FileSource, ModuleSource
from aireprune.reports import facts
from aireprune.reports.document import Document, Fact, LayerView, ModelView
from aireprune.reports.layers import Sight, choices, plan_template, view_layers
from aireprune.reports.making import made, sweep_command
from aireprune.reports.measured import Measured, measure
from aireprune.reports.sizes import Size, size_of
from aireprune.reports.subject import AnySource, Subject

if TYPE_CHECKING:
    from torch import nn

    from aireprune.reports.sweeps import Sweep

FAMILIES = {"s5": "S5", "s4d": "S4D", "lru": "LRU", "mamba": "Mamba", "mamba2": "Mamba-2"}


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What to measure on: a task's name, and at most so many of its test examples; 0: all."""

    task: str
    examples: int = 1000


def document_of(subject: Subject, judged: Judged | None = None) -> Document:
    """The document of a report. judged: both models are built, compared on a task and timed."""
    if subject.sweep is not None:
        return _of_sweep(subject, subject.sweep)
    shown = subject.full or subject.pruned
    assert shown is not None
    plan = subject.plan
    measured = None if judged is None else _measured(subject, judged)
    layers = _layers(subject, shown)
    before, after = (None if source is None else size_of(source) for source in (subject.full, subject.pruned))
    if plan is None:
        told = facts.verdict_of_model(layers)
    else:
        told = facts.verdict_of_plan(plan, layers, measured, subject.pruned is not None)
    return Document(
        title=_title(subject),
        subtitle=subtitle(shown.name, layers),
        verdict=told,
        facts=_facts(plan, layers, (before, after), measured),
        making=made(_commands(subject, judged), plan, _paths(subject)),
        model=_model(subject, shown, layers),
        notices=subject.notices,
    )


def _of_sweep(subject: Subject, sweep: Sweep) -> Document:
    from aireprune.reports.sweeps import view_sweep

    source = subject.full
    view = view_sweep(sweep, None if source is None else source.layers[0].family)
    layers = () if source is None else view_layers(Sight(full=source, plan=subject.plan))
    told = {
        "checkpoint": str(sweep.source or "not named"),
        "fingerprint of the model": str(sweep.swept.get("fingerprint")),
    }
    told |= {"task": f"{view.task}, {view.examples} test examples", "seeds of method random": str(sweep.swept["seeds"])}
    return Document(
        title=f"Sweep of {sweep.folder.resolve().name}",
        subtitle=f"{len(view.curves)} ways to prune at {len(view.curves[0].points)} ratios on {view.task}, not retrained",
        verdict=facts.verdict_of_sweep(view),
        facts=tuple(facts.sweep_facts(view, dict(sweep.speeds))),
        making=made([sweep_command(sweep.swept, sweep.folder)], None, told),
        model=None if source is None else _model(replace(subject, pruned=None), source, layers),
        sweep=view,
        notices=subject.notices,
    )


def _layers(subject: Subject, shown: AnySource) -> tuple[LayerView, ...]:
    """The layers of the full model or, if that is not there, of the pruned one with what its plan says about them."""
    plan, method = subject.plan, _scored_by(subject.plan)
    if plan is None:
        return view_layers(Sight(full=shown))
    if subject.full is None:
        proved = {found["name"]: found for found in plan.certificate or ()}
        return tuple(replace(view, certificate=proved.get(view.name)) for view in view_layers(Sight(full=shown)))
    horizon = plan.horizon if method == plan.method else None
    return view_layers(
        Sight(
            full=shown,
            plan=plan,
            pruned=subject.pruned,
            methods=(method,),
            horizon=horizon,
            seed=plan.seed,
        )
    )


def _scored_by(plan: Plan | None) -> str:
    """The method whose scores are shown; those that were measured are not kept, and energies stand in for them."""
    return "aire" if plan is None or find_method(plan.method).measured else plan.method


def _facts(
    plan: Plan | None, layers: tuple[LayerView, ...], sizes: tuple[Size | None, Size | None], measured: Measured | None
) -> tuple[Fact, ...]:
    return (facts.state_fact(plan, layers), *facts.size_facts(*sizes), *facts.measured_facts(measured))


def _model(subject: Subject, shown: AnySource, layers: tuple[LayerView, ...]) -> ModelView:
    plan = subject.plan
    return ModelView(
        name=shown.name,
        layers=layers,
        methods=choices((_scored_by(plan),)),
        plan=None if plan is None or subject.full is None else plan_template(plan),
    )


def _measured(subject: Subject, judged: Judged) -> Measured:
    if subject.full is None or subject.pruned is None:
        raise AireError(
            f"{subject.name}: a task compares a pruned model with its original, and both must be there. Leave task= away."
        )
    return measure(_built(subject.full), _built(subject.pruned), judged.task, judged.examples)


def _built(source: AnySource) -> nn.Module:
    return source.module if isinstance(source, ModuleSource) else source.build()


def _title(subject: Subject) -> str:
    if subject.pruned is not None:
        return f"{subject.name}, pruned"
    return f"{subject.name}: a plan" if subject.plan is not None else subject.name


def subtitle(name: str, layers: tuple[LayerView, ...]) -> str:
    """Which family, how many layers and states, and where."""
    families = " and ".join(sorted({FAMILIES.get(layer.family, layer.family) for layer in layers}))
    return f"{families}, {facts.layers_text(len(layers))}, {sum(layer.counted for layer in layers):,} states: {name}"


def _commands(subject: Subject, judged: Judged | None) -> list[str]:
    """Pruning, if that was done, and this report."""
    pruned, full, plan = subject.pruned, subject.full, subject.plan
    options = {} if judged is None else {"task": judged.task, "examples": judged.examples}
    if plan is None:
        return [command(["report", full.name], options)] if isinstance(full, FileSource) else []
    source = full.name if isinstance(full, FileSource) else plan.source or "CKPT"
    target = pruned.name if isinstance(pruned, FileSource) else "OUT"
    return [prune_command(plan, source, target), command(["report", target], options)]


def _paths(subject: Subject) -> dict[str, str]:
    pairs = {"original": subject.full, "pruned": subject.pruned}
    return {name: str(source.checkpoint.path) for name, source in pairs.items() if isinstance(source, FileSource)}
