"""aire prune: a checkpoint in, a smaller one out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from aireprune.cli import prune_options as flags
from aireprune.cli.dry_run import MEASURING, check_dry_run
from aireprune.cli.dry_run import dry_run as show_dry_run
from aireprune.cli.ending import resumable
from aireprune.cli.judge import TaskName, TextFile, judgement_on
from aireprune.cli.loading import how_to_load
from aireprune.cli.options import (
    Calibrate,
    CalibrateCount,
    CalibrateTokens,
    Checkpoint,
    Config,
    Granularity,
    Horizon,
    Json,
    LayerInputs,
    Module,
    Ray,
    Recover,
    RecoverCount,
    RecoverSteps,
    Seed,
    StateAxis,
)
from aireprune.cli.output import notices, print_json, progress_line, say, waiting, writing
from aireprune.cli.pruned import View, show
from aireprune.cli.report import WithReport, report_if
from aireprune.cli.sizes import bytes_of, sizes_of, withdrawn_on_failure
from aireprune.errors import AireError

if TYPE_CHECKING:
    from aireprune.bench.pruned import Speed
    from aireprune.pruning.outcome import Pruned
    from aireprune.pruning.request import Job
    from aireprune.pruning.source import FileSource

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a plan is made with; the defaults are those of the command."""

    ratio: float | None = None
    threshold: float | None = None
    method: str = AUTO
    min_states: int = 1
    epsilon: float = 0.0
    horizon: int | None = None
    seed: int = 0
    unstable: str = "refuse"
    layout: str = AUTO
    granularity: str = "mode"
    state_axis: tuple[str, ...] = ()
    round_to: int = 1
    reduce: str = AUTO
    allocate: str = "scores"
    target: str | None = None

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
    calibrate_tokens: int
    layer_inputs: Path | None
    recover: float | None
    recover_steps: int | None
    recover_count: int
    resume: bool
    ray: str | None


def prune(
    ckpt: Checkpoint,
    out: flags.Out,
    ratio: flags.Ratio = None,
    threshold: flags.Threshold = None,
    plan: flags.PlanFile = None,
    method: flags.Method = AUTO,
    reduce: flags.Reduce = AUTO,
    calibrate: Calibrate = None,
    calibrate_count: CalibrateCount = 256,
    calibrate_tokens: CalibrateTokens = 65536,
    layer_inputs: LayerInputs = None,
    recover: Recover = None,
    recover_steps: RecoverSteps = None,
    recover_count: RecoverCount = 20_000,
    module: Module = None,
    max_drop: flags.MaxDrop = None,
    task: TaskName = None,
    text: TextFile = None,
    mask: flags.Mask = False,
    min_states: flags.MinStates = 1,
    epsilon: flags.Epsilon = 0.0,
    horizon: Horizon = None,
    seed: Seed = 0,
    target: flags.Target = None,
    layout: flags.Layout = AUTO,
    granularity: Granularity = "mode",
    round_to: flags.RoundTo = 1,
    allocate: flags.Allocate = "scores",
    unstable: flags.Unstable = "refuse",
    state_axis: StateAxis = None,
    force: flags.Force = False,
    overwrite: flags.Overwrite = False,
    resume: flags.Resume = False,
    ray: Ray = None,
    report: WithReport = False,
    dry_run: flags.DryRun = False,
    bench: flags.Bench = False,
    details: flags.Details = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Remove the states that matter least and write a smaller checkpoint of the same kind.

    Give --ratio, --threshold, --plan, or --max-drop with --task or --text. The original is never touched, and OUT
    appears whole or not at all. An OUT without a suffix makes a folder in our own format (config.json,
    model.safetensors, plan.json) from a single file that has one. --task or --text judge the full and the pruned model.
    """
    handling = Handling(
        mask=mask,
        force=force,
        calibrate=calibrate,
        calibrate_count=calibrate_count,
        calibrate_tokens=calibrate_tokens,
        layer_inputs=layer_inputs,
        recover=recover,
        recover_steps=recover_steps,
        recover_count=recover_count,
        resume=resume,
        ray=ray,
    )
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
        allocate=allocate,
        target=target,
    )
    _check(choices, plan, max_drop, task is not None or text is not None)
    named = plan is not None or reduce != AUTO
    view = View(reduce_named=named, method_named=method != AUTO, mask=mask, details=details)
    if dry_run:
        check_dry_run(max_drop, allocate)
        left_out = [f"--{name.replace('_', '-')}" for name in MEASURING if getattr(handling, name) is not None]
        job = _job(
            choices, plan, replace(handling, calibrate=None, layer_inputs=None, recover=None, recover_steps=None)
        )
        source, job = _settled(_source(ckpt, config, job, module), job, out)
        _check_before_work(source, out, job, overwrite)
        show_dry_run(source, out, job, left_out, None if json else view)
        return
    if max_drop is not None:
        choices = replace(choices, ratio=0.0)  # until the search has found one
    job = _job(choices, plan, handling)
    source, job = _settled(_source(ckpt, config, job, module), job, out)
    _check_before_work(source, out, job, overwrite)
    judgement = judgement_on(task, text, source)
    source = source if judgement is None else judgement.source
    if judgement is not None and max_drop is not None:
        job = _at_ratio(job, judgement.find_ratio(job, max_drop, out))
    with withdrawn_on_failure(out, overwrite):
        done = _pruned(source, out, job, overwrite)
        if judgement is not None:
            judgement.judge(out)
            judgement.note_in_card(done, out, mask)
        sizes = sizes_of(source, out, done.plan)
        speed = _speed(source, done, mask) if bench else None
    notices(done.notices)
    report_if(report, source, out, task)
    if json:
        document = {"source": str(ckpt), "target": str(out), "masked": mask, **sizes.to_dict()}
        metric = {} if judgement is None else {"metric": judgement.to_dict()}
        timed = {} if speed is None else {"speed": speed.to_dict()}
        recovery = {} if done.recovered is None else {"recovery": done.recovered.to_dict()}
        extra = {**metric, **recovery, **timed, "outcome": asdict(done.outcome)}
        print_json({**document, **extra, "plan": done.plan.to_dict()})
        return
    show(done, sizes, speed, view)
    if judgement is not None:
        judgement.show()
    say(how_to_load(source, out, done.plan, mask))


def _check(choices: Choices, plan: Path | None, max_drop: float | None, judged: bool) -> None:
    """Raise for options that do not go together."""
    if plan is None and max_drop is None and choices.ratio is None and choices.threshold is None:
        raise AireError("Say how much is to go: --ratio, --threshold, --plan, or --max-drop with --task or --text.")
    if max_drop is not None and plan is not None:
        raise AireError("--max-drop makes a plan of its own: give it without --plan.")
    if max_drop is not None and (not judged or choices.ratio is not None or choices.threshold is not None):
        raise AireError(
            "--max-drop finds the ratio by itself: give it with --task or --text, without --ratio and --threshold."
        )
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


def _source(ckpt: Path, config: Path | None, job: Job, module: str | None) -> FileSource:
    from aireprune.pruning.source import open_file

    return open_file(ckpt, config, job.units, module)


def _settled(source: FileSource, job: Job, target: Path) -> tuple[FileSource, Job]:
    """With what was left open chosen for this checkpoint."""
    from aireprune.pruning.defaults import settle

    return settle(source, job, own=source.writes_own(target))


def _at_ratio(job: Job, ratio: float) -> Job:
    assert job.request is not None
    return replace(job, request=replace(job.request, budget=replace(job.request.budget, ratio=ratio)))


def _check_before_work(source: FileSource, target: Path, job: Job, overwrite: bool) -> None:
    """Whatever can be known to fail fails before minutes of work."""
    from aireprune.files.writing.atomic import refuse_existing
    from aireprune.pruning.calibrating import read_calibration, read_layer_inputs, read_recovery
    from aireprune.pruning.fitting import check_output
    from aireprune.pruning.prune import check_job

    refuse_existing(target, overwrite)
    source.check_copy(target)
    check_output(job, source.writes_own(target))
    check_job(source, job)
    read_calibration(source, job.calibration)
    read_recovery(source, job)
    read_layer_inputs(source, job.calibration)


def _pruned(source: FileSource, target: Path, job: Job, overwrite: bool) -> Pruned:
    from aireprune.pruning.prune import prune_checkpoint

    kept = job.recovery is not None or (job.calibration is not None and source.kind == "huggingface")
    total = bytes_of(source.checkpoint.path)
    with writing(f"pruning {source.checkpoint.path.name}", total), resumable() if kept else nullcontext():
        return prune_checkpoint(source, target, job, overwrite, progress_line)


def _speed(source: FileSource, done: Pruned, mask: bool) -> Speed:
    from aireprune.bench.pruned import bench_pruned

    with waiting("timing the full and the pruned model"):
        return bench_pruned(source, done.plan, mask)
