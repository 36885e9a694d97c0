"""aire prune: a checkpoint in, a smaller one out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aireprune.cli.options import Checkpoint, Config, Granularity, Horizon, Json, MethodName, Seed, StateAxis
from aireprune.cli.output import notices, percent, print_json, say, size, table, waiting
from aireprune.cli.report import WithReport, report_if
from aireprune.cli.sizes import Sizes, bytes_of, sizes_of, withdrawn_on_failure
from aireprune.errors import AireError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aireprune.cli.judge import Judgement
    from aireprune.pruning.plan import Plan
    from aireprune.pruning.prune import Pruned
    from aireprune.pruning.request import Job
    from aireprune.pruning.source import FileSource


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a plan is made with; the defaults are those of the command."""

    ratio: float | None = None
    threshold: float | None = None
    method: str = "aire"
    min_states: int = 1
    epsilon: float = 0.0
    horizon: int | None = None
    seed: int = 0
    unstable: str = "refuse"
    layout: str = "adaptive"
    granularity: str = "mode"
    state_axis: tuple[str, ...] = ()
    round_to: int = 1
    reduce: str = "truncate"

    @property
    def given(self) -> list[str]:
        """Names of those that are not the defaults."""
        return [field.name for field in fields(self) if getattr(self, field.name) != field.default]


@dataclass(frozen=True, kw_only=True)
class Handling:
    """How a plan is carried out."""

    mask: bool
    force: bool
    calibrate: str | None
    calibrate_count: int


def prune(
    ckpt: Checkpoint,
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", metavar="OUT", help="Where to write the pruned checkpoint; must not exist (see --overwrite)."
        ),
    ],
    ratio: Annotated[
        float | None, typer.Option("--ratio", "-r", metavar="P", help="Share of all states to remove, 0 to 1.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", metavar="T", help="Remove the states that score below T.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Apply this plan instead of making one.")
    ] = None,
    method: MethodName = "aire",
    reduce: Annotated[
        str,
        typer.Option(
            "--reduce",
            metavar="truncate|refit|balanced",
            help="What becomes of the states that stay: nothing (the paper), a readout that makes up for the others, "
            "or new states by balanced truncation (with method aire). S5, LRU and S4D.",
        ),
    ] = "truncate",
    calibrate: Annotated[
        str | None,
        typer.Option(
            "--calibrate",
            metavar="SOURCE",
            help="Unlabelled inputs to fit the reduced layers with: a task's name (its training split), a .npy or .npz "
            "file, or a directory of them. S5, S4D and Mamba in our own model classes.",
        ),
    ] = None,
    calibrate_count: Annotated[
        int, typer.Option("--calibrate-count", metavar="N", help="Use at most N calibration sequences.")
    ] = 256,
    max_drop: Annotated[
        float | None,
        typer.Option(
            "--max-drop",
            metavar="X",
            help="Find the largest ratio that costs at most X points of accuracy on the validation split of --task.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="TASK", help="Task of --max-drop; alone: report its test accuracy."),
    ] = None,
    mask: Annotated[
        bool, typer.Option("--mask", help="Silence the states instead of removing them: same shapes, same outputs.")
    ] = False,
    min_states: Annotated[
        int, typer.Option("--min-states", metavar="K", help="Keep at least K states in every layer.")
    ] = 1,
    epsilon: Annotated[
        float,
        typer.Option(
            "--epsilon", metavar="E", help="Added to the prefix sums; with --min-states 0 it lets whole layers go."
        ),
    ] = 0.0,
    horizon: Horizon = None,
    seed: Seed = 0,
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            metavar="adaptive|uniform|padded",
            help="Every layer its own size; one size for all; or chosen as adaptive and filled up with silent states "
            "to one size. Stock code that has one state size for all layers loads the last two.",
        ),
    ] = "adaptive",
    granularity: Granularity = "mode",
    round_to: Annotated[
        int, typer.Option("--round-to", metavar="K", help="Round the states kept per layer up to a multiple of K.")
    ] = 1,
    unstable: Annotated[
        str,
        typer.Option("--unstable", metavar="refuse|keep", help="Poles with |lambda| >= 1: stop, or always keep them."),
    ] = "refuse",
    state_axis: StateAxis = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Write a layer that lost nearly everything although it keeps many states."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = False,
    report: WithReport = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Remove the states that matter least and write a smaller checkpoint of the same kind.

    Give --ratio, --threshold, --plan, or --max-drop with --task. The original is never touched, and OUT appears whole
    or not at all. An OUT without a suffix makes a folder in our own format (config.json, model.safetensors, plan.json)
    from a single file.
    """
    handling = Handling(mask=mask, force=force, calibrate=calibrate, calibrate_count=calibrate_count)
    choices = Choices(
        ratio=ratio,
        threshold=threshold,
        method=method,
        min_states=min_states,
        epsilon=epsilon,
        horizon=horizon,
        seed=seed,
        unstable=unstable,
        layout=layout,
        granularity=granularity,
        state_axis=tuple(state_axis or ()),
        round_to=round_to,
        reduce=reduce,
    )
    _check(choices, plan, max_drop, task)
    if max_drop is not None:
        choices = replace(choices, ratio=0.0)  # until the search has found one
    job = _job(choices, plan, handling)
    source = _source(ckpt, config, job)
    _check_before_work(source, out, job, overwrite)
    judgement = _judgement(task, source)
    if judgement is not None and max_drop is not None:
        job = _job(replace(choices, ratio=judgement.find_ratio(job, max_drop, out)), None, handling)
    with withdrawn_on_failure(out, overwrite):
        done = _pruned(source, out, job, overwrite)
        if judgement is not None:
            judgement.judge(out)
        sizes = sizes_of(source, out)
    notices(done.notices)
    report_if(report, source, out, task)
    if json:
        document = {"source": str(ckpt), "target": str(out), "masked": mask, **sizes.to_dict()}
        accuracy = {} if judgement is None else {"accuracy": judgement.to_dict()}
        print_json({**document, **accuracy, "plan": done.plan.to_dict()})
        return
    _show(done, sizes, out, mask)
    if judgement is not None:
        judgement.show()


def _check(choices: Choices, plan: Path | None, max_drop: float | None, task: str | None) -> None:
    """Raise for options that do not go together."""
    if max_drop is not None and plan is not None:
        raise AireError("--max-drop makes a plan of its own: give it without --plan.")
    if max_drop is not None and (task is None or choices.ratio is not None or choices.threshold is not None):
        raise AireError("--max-drop finds the ratio by itself: give it with --task, without --ratio and --threshold.")
    if plan is not None and choices.given:
        raise AireError(
            f"The plan already decides on {', '.join(sorted(choices.given)).replace('_', '-')}: give --plan alone, or "
            "make a new plan."
        )


def _job(choices: Choices, plan_file: Path | None, handling: Handling) -> Job:
    """The job that the flags describe; what does not go together is refused here."""
    from aireprune.pruning.plan import Plan
    from aireprune.pruning.request import make_job

    plan, given = None, asdict(handling)
    if plan_file is not None:
        plan = Plan.load(plan_file)
    else:
        given |= asdict(choices)
    return make_job(plan, given)  # type: ignore[arg-type]


def _source(ckpt: Path, config: Path | None, job: Job) -> FileSource:
    from aireprune.pruning.source import open_file

    return open_file(ckpt, config, job.units)


def _check_before_work(source: FileSource, target: Path, job: Job, overwrite: bool) -> None:
    """Whatever can be known to fail fails before minutes of work."""
    from aireprune.files.writing.atomic import refuse_existing
    from aireprune.pruning.prune import check_job, read_calibration

    refuse_existing(target, overwrite)
    check_job(source, job)
    read_calibration(job.calibration)


def _judgement(task: str | None, source: FileSource) -> Judgement | None:
    if task is None:
        return None
    from aireprune.cli.judge import Judgement
    from aireprune.tasks import load_task

    return Judgement(load_task(task), source)


def _pruned(source: FileSource, target: Path, job: Job, overwrite: bool) -> Pruned:
    from aireprune.pruning.prune import prune_checkpoint

    with waiting(f"pruning {source.name} ({bytes_of(source.checkpoint.path) / 1e6:.0f} MB)"):
        return prune_checkpoint(source, target, job, overwrite)


def _show(done: Pruned, sizes: Sizes, target: Path, mask: bool) -> None:
    plan = done.plan
    say(profile(plan))
    say(
        f"{plan.states - plan.kept} of {plan.states} states {'silenced' if mask else 'removed'} "
        f"({percent(plan.achieved_ratio)}), {sizes.parameters[0]:,} -> {sizes.parameters[1]:,} parameters, "
        f"{size(sizes.bytes[0])} -> {size(sizes.bytes[1])}: {target}"
    )
    if plan.ratio is not None and plan.achieved_ratio < plan.ratio - 0.01:
        say(
            f"{percent(plan.ratio)} were asked for; every layer keeps at least {plan.min_states}, and counts are rounded up."
        )
    advice = None if mask else sizes.advice(plan)
    if advice is not None:
        say(advice)
    if done.fit is not None and plan.calibrated:
        say(
            f"Readouts were calibrated with {plan.calibrated} unlabelled sequences: on held-out ones the outputs differ "
            f"from the full model's by {percent(done.fit.after)} ({percent(done.fit.before)} before)."
        )


def profile(plan: Plan) -> RenderableType:
    """The per-layer table of a plan: the share of energy (balanced: of squared Hankel values) that stays, and the exact H2
    error of the layer, relative to its H2 norm."""
    errors = {layer["name"]: percent(layer["relative_h2"], 2) for layer in plan.certificate or ()}
    held = "Hankel kept" if plan.reduce == "balanced" else "energy kept"
    return table(
        f"{plan.method if plan.reduce == 'truncate' else plan.reduce}: kept states per layer",
        ("layer", "states", "kept", "removed", held, *["H2 error"] * bool(errors)),
        (
            (
                layer.name,
                layer.counted,
                len(layer.kept),
                percent(layer.ratio),
                percent(layer.energy_kept, 2),
                *[errors.get(layer.name, "–")] * bool(errors),
            )
            for layer in plan.layers
        ),
    )
