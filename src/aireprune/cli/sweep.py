"""aire sweep: every variant at every ratio, a table, curves, and the ratio each of them may be trusted with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from aireprune.api import load
from aireprune.cli.output import console, percent, print_json, stderr, table
from aireprune.experiments.figures import draw_sweep, value_of
from aireprune.experiments.sweep import Settings, make_variants, parse_ratios, run_sweep
from aireprune.tasks import load_task


def sweep(
    ckpt: Path,
    task_name: str,
    out: Path,
    methods: str,
    reductions: str,
    ratios: str,
    calibrated: bool,
    config: Path | None,
    json: bool,
    options: dict[str, Any],
) -> None:
    variants = make_variants(methods.split(","), reductions.split(","), calibrated)
    settings = Settings(variants, parse_ratios(ratios), **options)
    model, task = load(ckpt, config), load_task(task_name)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True) as bar:
        job = bar.add_task("the full model")

        def show(row: dict[str, Any], done: int, total: int) -> None:
            bar.update(job, completed=done, total=total, description=f"{row['variant']} at {row['ratio']:.0%}")

        summary = run_sweep(model, task, settings, out, show)
    draw_sweep(summary, out)
    if json:
        print_json(summary)
    else:
        print_summary(summary)
        console.print(f"\nFiles: {out}/cells.jsonl, summary.json, curves.svg and profile-*.svg")


def print_summary(summary: Mapping[str, Any]) -> None:
    first = next(iter(summary["variants"].values()))
    digits = 1 if summary["metric"] == "accuracy" else 3
    unit = "Accuracy (%)" if summary["metric"] == "accuracy" else "Bits per byte"
    rows = []
    for name, variant in summary["variants"].items():
        cells = []
        for point in variant["points"]:
            text = f"{value_of(summary, point['test']):.{digits}f}"
            cells.append(text if point["sd"] is None else f"{text}±{value_of(summary, point['sd']):.{digits}f}")
        rows.append((name, *cells))
    title = f"{unit} on {summary['examples']} test examples of {summary['task']} against the share of states removed"
    console.print(table(title, ("variant", *(f"{point['ratio']:.0%}" for point in first["points"])), rows))
    console.print()
    safe_rows = []
    for name, variant in summary["variants"].items():
        safe = variant["safe"]
        low, high = (value_of(summary, bound) for bound in safe["interval"])
        safe_rows.append(
            (
                name,
                percent(safe["ratio"], 0),
                f"{value_of(summary, safe['test']):.{digits}f}",
                f"{low:.{digits}f} to {high:.{digits}f}",
                f"{safe['p']:.2g}",
                percent(1 - safe["parameters"] / summary["full"]["parameters"]),
            )
        )
    allowed = f"{summary['drop']:g} " + ("point" if summary["metric"] == "accuracy" else "% more bits")
    title = f"Largest ratio that costs at most {allowed} on validation; test results there"
    heads = ("variant", "safe ratio", "test", "95 % interval", "p against full", "parameters saved")
    console.print(table(title, heads, safe_rows))
