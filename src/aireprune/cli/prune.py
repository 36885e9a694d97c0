"""aire prune: a checkpoint in, a smaller one out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aireprune.cli.options import Checkpoint, Config, Granularity, Horizon, Json, MethodName, Seed
from aireprune.cli.output import notices, percent, print_json, say, size, table, waiting
from aireprune.errors import AireError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aireprune.cli.judge import Judgement
    from aireprune.pruning.plan import Plan


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
    round_to: int = 1
    reduce: str = "truncate"

    @property
    def given(self) -> list[str]:
        """Names of those that are not the defaults."""
        return [field.name for field in fields(self) if getattr(self, field.name) != field.default]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is pruned into what, and how, besides the choices of a plan."""

    source: Path
    target: Path
    config: Path | None
    mask: bool
    overwrite: bool
    calibrate: str | None
    calibrate_count: int

    @property
    def options(self) -> dict[str, Any]:
        """mask, and the calibration if there is one, as arguments of `aireprune.prune`."""
        if self.calibrate is None:
            return {"mask": self.mask}
        return {"mask": self.mask, "calibrate": self.calibrate, "calibrate_count": self.calibrate_count}


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
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Remove the states that matter least and write a smaller checkpoint of the same kind.

    Give --ratio, --threshold, --plan, or --max-drop with --task. The original is never touched, and OUT appears whole
    or not at all. An OUT without a suffix makes a folder in our own format (config.json, model.safetensors, plan.json)
    from a single file.
    """
    job = Job(
        source=ckpt,
        target=out,
        config=config,
        mask=mask,
        overwrite=overwrite,
        calibrate=calibrate,
        calibrate_count=calibrate_count,
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
        round_to=round_to,
        reduce=reduce,
    )
    _check(choices, plan, max_drop, task)
    judgement = _judgement(task)
    if judgement is not None and max_drop is not None:
        options = {name: value for name, value in asdict(choices).items() if name not in ("ratio", "threshold")}
        found = judgement.find_ratio(job.source, job.config, max_drop, {**job.options, **options})
        choices = replace(choices, ratio=found)
    applied, noted = _write(job, choices, plan)
    if judgement is not None:
        judgement.judge(job.target, job.config)
    notices(noted)
    sizes = [_size_of(job.source), _size_of(job.target)]
    if json:
        document = {"source": str(ckpt), "target": str(out), "masked": mask, "bytes": sizes}
        accuracy = {} if judgement is None else {"accuracy": judgement.to_dict()}
        print_json({**document, **accuracy, "plan": applied.to_dict()})
        return
    _show(job, applied, sizes)
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


def _judgement(task: str | None) -> Judgement | None:
    if task is None:
        return None
    from aireprune.cli.judge import Judgement
    from aireprune.tasks import load_task

    return Judgement(load_task(task))


def _write(job: Job, choices: Choices, plan_file: Path | None) -> tuple[Plan, list[str]]:
    """Prune the file; the plan that was applied, and what to say about it."""
    from aireprune.api import prune_file
    from aireprune.files import open_checkpoint
    from aireprune.pruning.plan import Plan

    plan = None if plan_file is None else Plan.load(plan_file)
    options = asdict(choices) if plan is None else {}
    checkpoint = open_checkpoint(job.source, job.config)
    with waiting(f"pruning {job.source} ({_size_of(job.source) / 1e6:.0f} MB)"):
        applied = prune_file(checkpoint, job.target, plan, overwrite=job.overwrite, **job.options, **options)
    notes = [f"{layer['name']}: {note}" for layer in applied.certificate or () for note in layer["notes"]]
    return applied, [*checkpoint.notices, *notes]


def _show(job: Job, applied: Plan, sizes: list[int]) -> None:
    say(profile(applied))
    before, after = sizes
    say(
        f"{applied.states - applied.kept} of {applied.states} states {'silenced' if job.mask else 'removed'} "
        f"({percent(applied.achieved_ratio)}), {size(before)} -> {size(after)}: {job.target}"
    )
    if applied.calibrated:
        say(f"Readouts were calibrated with {applied.calibrated} unlabelled sequences.")


def profile(plan: Plan) -> RenderableType:
    """The per-layer table of a plan; H2 error is the exact one of the layer, relative to its H2 norm."""
    errors = {layer["name"]: percent(layer["relative_h2"], 2) for layer in plan.certificate or ()}
    return table(
        f"{plan.method if plan.reduce == 'truncate' else plan.reduce}: kept states per layer",
        ("layer", "states", "kept", "removed", "energy kept", *["H2 error"] * bool(errors)),
        (
            (
                layer.name,
                layer.states,
                len(layer.kept),
                percent(layer.ratio),
                percent(layer.energy_kept, 2),
                *[errors.get(layer.name, "–")] * bool(errors),
            )
            for layer in plan.layers
        ),
    )


def _size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
