"""aire demo: every method on the embedded digit classifier, then dense, masked and removed side by side."""

from __future__ import annotations

import json as jsonlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress
from torch import nn

import aireprune
from aireprune import embedded
from aireprune.cli.output import console, percent, print_json, stderr, table
from aireprune.cli.prune import profile, size_of
from aireprune.files.atomic import atomic_path
from aireprune.pruning.plan import Plan
from aireprune.tasks import Task
from aireprune.tasks.evaluate import evaluate

PAPER_METHODS = (
    "aire",
    "last",
    "lamp",
    "global-hinf",
    "uniform-hinf",
    "global-magnitude",
    "uniform-magnitude",
    "random",
)
RATIOS = (0.2, 0.4, 0.6, 0.8)
SHOWN_RATIO = 0.4
TIMED_BATCH, TIMED_RUNS = 50, 9


def run(out: Path, json: bool) -> None:
    began = time.perf_counter()
    task, dense = embedded.digits(), aireprune.load(embedded.MODEL)
    rows: dict[str, dict[str, Any]] = {name: {"method": name} for name in PAPER_METHODS}
    rows["balanced"] = {"reduce": "balanced"}
    curves: dict[str, list[float]] = {name: [] for name in rows}
    with Progress(console=stderr, transient=True) as bar:
        job = bar.add_task("the full model", total=1 + len(rows) * len(RATIOS))
        full = evaluate(dense, task, task.test)
        bar.advance(job)
        for name, options in rows.items():
            for ratio in RATIOS:
                bar.update(job, description=f"{name} at {ratio:.0%}")
                curves[name].append(evaluate(aireprune.prune(dense, ratio=ratio, **options), task, task.test))
                bar.advance(job)
        bar.update(job, description="timing")
        plan = aireprune.plan(dense, ratio=SHOWN_RATIO)
        models = {
            "dense": dense,
            "masked": aireprune.prune(dense, plan, mask=True),
            "removed": aireprune.prune(dense, plan),
            "balanced": aireprune.prune(dense, ratio=SHOWN_RATIO, reduce="balanced"),
        }
        compared = compare(models, task, out)
    results = {
        "examples": len(task.test),
        "full_accuracy": full,
        "ratios": list(RATIOS),
        "accuracy": curves,
        "plan": plan.to_dict(),
        "models": compared,
        "seconds": time.perf_counter() - began,
        "folder": str(out),
    }
    with atomic_path(out / "results.json") as temporary:
        temporary.write_text(jsonlib.dumps(results, indent=1) + "\n")
    if json:
        print_json(results)
    else:
        show(results, plan)


def compare(models: dict[str, nn.Module], task: Task, out: Path) -> list[dict[str, Any]]:
    """Accuracy, size and interleaved forward times of the models, each saved under its name."""
    times = interleaved_times(models, task)
    rows = []
    for name, model in models.items():
        aireprune.save(model, out / name, overwrite=True)
        rows.append(
            {
                "model": name,
                "accuracy": evaluate(model, task, task.test),
                "parameters": sum(p.numel() for p in model.parameters()),
                "bytes": size_of(out / name / "model.safetensors"),
                "milliseconds": 1e3 * float(np.median(times[name])),
                "speedup": float(np.median(np.array(times["dense"]) / np.array(times[name]))),
            }
        )
    return rows


@torch.inference_mode()
def interleaved_times(models: dict[str, nn.Module], task: Task) -> dict[str, list[float]]:
    """Seconds of a forward pass, the models taking turns so that a busy machine is busy for all of them."""
    x = torch.from_numpy(task.inputs(task.test.x[:TIMED_BATCH]))
    times: dict[str, list[float]] = {name: [] for name in models}
    for model in models.values():
        model(x)
    for _ in range(TIMED_RUNS):
        for name, model in models.items():
            began = time.perf_counter()
            model(x)
            times[name].append(time.perf_counter() - began)
    return times


def show(results: dict[str, Any], plan: Plan) -> None:
    console.print(
        f"A bidirectional S5 with {plan.states} states (conjugate pairs) in {len(plan.layers)} layers reads digits "
        f"pixel by pixel (784 steps).\nAccuracy of the full model on the {results['examples']} embedded test digits: "
        f"{percent(results['full_accuracy'])}. No retraining below.\n"
    )
    console.print(
        table(
            "Accuracy (%) against the share of states removed",
            ("method", *(f"{ratio:.0%}" for ratio in results["ratios"])),
            ((name, *(f"{100 * value:.1f}" for value in curve)) for name, curve in results["accuracy"].items()),
        )
    )
    console.print()
    console.print(profile(plan))
    console.print()
    console.print(
        table(
            f"{SHOWN_RATIO:.0%} of the states gone; time of {TIMED_BATCH} digits, the models taking turns",
            ("model", "accuracy", "parameters", "weights", "time", "speedup"),
            (
                (
                    row["model"],
                    percent(row["accuracy"]),
                    f"{row['parameters']:,}",
                    f"{row['bytes'] / 1e3:.0f} kB",
                    f"{row['milliseconds']:.0f} ms",
                    f"{row['speedup']:.2f}x",
                )
                for row in results["models"]
            ),
        )
    )
    folder = results["folder"]
    names = ", ".join(f"{folder}/{row['model']}" for row in results["models"])
    console.print(f"\nFiles: {names} (model, config and plan) and {folder}/results.json")
    console.print(f"Done in {results['seconds']:.0f} s. Your own checkpoint: aire prune CKPT -o OUT --ratio 0.5")
