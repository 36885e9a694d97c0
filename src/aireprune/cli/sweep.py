"""aire sweep: every variant at every ratio, a table, curves, and the ratio each of them may be trusted with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aireprune.cli.ending import resumable
from aireprune.cli.options import Checkpoint, Config, Json, Ray
from aireprune.cli.output import next_step, notices, percent, print_json, progress, say, table

if TYPE_CHECKING:
    from aireprune.experiments.cells import Result
    from aireprune.experiments.summary import Curve, Summary


def sweep(
    ckpt: Checkpoint,
    task: Annotated[str, typer.Option("--task", metavar="TASK", help="What to judge the pruned models on.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder of the sweep; resumed if it exists.")],
    methods: Annotated[
        str, typer.Option("--methods", metavar="A,B,...", help="Pruning methods; `aire methods` lists them.")
    ] = "aire,last,lamp,global-hinf,uniform-hinf,global-magnitude,uniform-magnitude,random",
    reduce: Annotated[
        str,
        typer.Option("--reduce", metavar="A,B,...", help="Reductions: truncate, refit, balanced, projected, fitted."),
    ] = "truncate",
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="Method aire also with calibrated readouts (our own models).")
    ] = False,
    calibrate: Annotated[
        str | None,
        typer.Option("--calibrate", metavar="SOURCE", help="Calibration inputs; default: the task's training split."),
    ] = None,
    ratios: Annotated[
        str, typer.Option("--ratios", metavar="FROM:TO:STEP", help="Or a list: 0.2,0.5,0.8.")
    ] = "0:0.9:0.1",
    seeds: Annotated[int, typer.Option(metavar="K", min=1, help="Seeds of method random: mean and deviation.")] = 3,
    examples: Annotated[
        int, typer.Option(metavar="N", min=0, help="At most N validation and N test examples; 0: all.")
    ] = 1000,
    max_drop: Annotated[
        float,
        typer.Option(
            "--max-drop",
            metavar="X",
            min=0,
            help="What a safe ratio may cost on validation: points of accuracy, or per cent more bits (language tasks).",
        ),
    ] = 1.0,
    part: Annotated[
        str | None,
        typer.Option(
            "--part",
            metavar="K/N",
            help="Do only the K-th of N shares of the cells, in DIR/part-K-of-N; `aire sweep merge DIR` joins them.",
        ),
    ] = None,
    ray: Ray = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Prune with every method at every ratio, without retraining, and judge each model. Interrupt it at any time.

    Safe ratios are chosen on validation examples and reported on test examples, with 95 % intervals and a paired test
    against the full model.
    """
    from aireprune.experiments.on_ray import runner
    from aireprune.experiments.part import Part
    from aireprune.experiments.request import make_sweep_request, parse_ratios
    from aireprune.experiments.sweep import Setting, run_part, run_sweep
    from aireprune.experiments.workers import Subject
    from aireprune.pruning.source import open_file
    from aireprune.reports.present import present_sweep
    from aireprune.tasks import load_task

    share = None if part is None else Part.parse(part)

    request = make_sweep_request(
        {
            "methods": methods.split(","),
            "reduce": reduce.split(","),
            "ratios": parse_ratios(ratios),
            "seeds": seeds,
            "examples": examples,
            "calibrated": calibrated,
            "calibrate": calibrate,
            "max_drop": max_drop,
        }
    )
    run, source = runner(ray), open_file(ckpt, config)
    model, loaded = source.build(), load_task(task)
    setting = Setting(source=source.origin, run=run)
    with progress("the full model") as step:

        def report(found: Result, done: int, total: int) -> None:
            step(f"{found.key.variant} at {found.key.ratio:.0%}", done, total)

        with resumable():
            if share is not None:
                folder = run_part(Subject(model, loaded, request), share, out, report, setting)
            else:
                summary = run_sweep(model, loaded, request, out, report, setting)
    if share is not None:
        say(f"Wrote {folder}. When all {share.count} parts are there: aire sweep merge {out}")
        return
    notices(present_sweep(out, source))
    show(summary, out, json)
    if not json:
        next_step(f"aire prune {ckpt} -o OUT --max-drop {max_drop:g} --task {task}")


def show(summary: Summary, folder: Path, json: bool) -> None:
    """The summary of the sweep in a folder."""
    if json:
        print_json(summary.to_dict())
        return
    _show_tables(summary)
    say(
        f"\nOpen {folder}/report.html. Data: cells.jsonl and summary.json beside it; figures: curves.svg and "
        "profile-*.svg"
    )


def _show_tables(summary: Summary) -> None:
    unit = "Accuracy (%)" if summary.accuracy else summary.metric.capitalize()
    title = f"{unit} on {summary.examples} test examples of {summary.task} against the share of states removed"
    heads = ("variant", *(f"{ratio:.0%}" for ratio in summary.ratios))
    say(table(title, heads, ((name, *_metrics(summary, curve)) for name, curve in summary.variants.items())))
    say()
    allowed = f"{summary.drop:g} " + ("point" if summary.accuracy else "% more bits")
    title = f"Largest ratio that costs at most {allowed} on validation; test results there"
    heads = ("variant", "safe ratio", "test", "95 % interval", "p against full", "parameters saved")
    say(table(title, heads, ((name, *_safe(summary, curve)) for name, curve in summary.variants.items())))


def _metrics(summary: Summary, curve: Curve) -> list[str]:
    return [
        summary.text(point.test) + ("" if point.sd is None else f"±{summary.text(point.sd)}") for point in curve.points
    ]


def _safe(summary: Summary, curve: Curve) -> tuple[str, ...]:
    safe = curve.safe
    low, high = (summary.text(bound) for bound in safe.interval)
    saved = percent(summary.saved(safe))
    return percent(safe.ratio, 0), summary.text(safe.test), f"{low} to {high}", f"{safe.p:.2g}", saved
