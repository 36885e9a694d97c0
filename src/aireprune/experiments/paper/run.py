"""Doing what the tables and figures need: sweeps, ablations and timings, each kept as data and done once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aireprune.api import load
from aireprune.bench.timing import ratio, take_turns
from aireprune.errors import AireError
from aireprune.experiments.paper import models
from aireprune.experiments.paper.models import ABLATED, ENTRIES, Entry
from aireprune.experiments.sweep import Cell, Pruner, Settings, run_sweep
from aireprune.files.atomic import atomic_path
from aireprune.tasks import load_task
from aireprune.tasks.base import Task
from aireprune.tasks.evaluate import forward

ITEMS = {
    "table1": "S5: the ratio each method is safe at, and the accuracy there",
    "table2": "the same for S4D and Mamba",
    "table3": "S5: speedup and parameters saved at the safe ratios",
    "table5": "the same for Mamba",
    "curves": "accuracy against ratio, a figure per model",
    "profiles": "what each layer loses as the ratio grows, a figure per model",
    "averages": "loss and safe ratio of each method, averaged over the models",
    "ablations": "what each part of the method is worth",
}
TIMED_BATCH, TIMED_ROUNDS = 8, 9
Report = Callable[[str, int, int], None]


def wanted_items(item: str) -> tuple[str, ...]:
    if item != "all" and item not in ITEMS:
        raise AireError(f"There is no table or figure {item!r}. Choose all or one of {', '.join(ITEMS)}.")
    return tuple(ITEMS) if item == "all" else (item,)


def wanted_entries(items: tuple[str, ...], recipe: str, only: tuple[str, ...]) -> tuple[Entry, ...]:
    """The models that the items are about."""
    families = {"table1": ("s5",), "table2": ("s4d", "mamba"), "table3": ("s5",), "table5": ("mamba",)}
    needed = {family for item in items for family in families.get(item, ("s5", "s4d", "mamba"))}
    entries = tuple(entry for entry in ENTRIES[recipe] if entry.family in needed)
    unknown = set(only) - {entry.name for entry in ENTRIES[recipe]}
    if unknown:
        raise AireError(
            f"There is no model {', '.join(sorted(unknown))} in recipe {recipe}. Models: "
            f"{', '.join(entry.name for entry in ENTRIES[recipe])}."
        )
    return tuple(entry for entry in entries if not only or entry.name in only)


def reproduce(
    items: tuple[str, ...], entries: tuple[Entry, ...], recipe: str, zoo: Path, data: Path, report: Report
) -> None:
    """Do the sweeps that are missing below `data`: NAME/ and ablations/NAME/."""
    for entry in entries:
        model, task = load(entry.path(zoo, recipe)), load_task(entry.task(recipe))
        if set(items) - {"ablations"}:
            settings = models.settings(entry, recipe)
            run_sweep(model, task, settings, data / entry.name, _reporter(report, entry.name))
        if "ablations" in items and entry.name in ABLATED:
            settings = models.ablation_settings(recipe, task.length)
            run_sweep(
                model, task, settings, data / "ablations" / entry.name, _reporter(report, f"{entry.name} ablations")
            )


def time_models(
    items: tuple[str, ...], entries: tuple[Entry, ...], recipe: str, zoo: Path, data: Path, report: Report
) -> None:
    """Time what Tables 3 and 5 compare, once, after everything else: NAME/speed.json."""
    wanted = {family for item, family in (("table3", "s5"), ("table5", "mamba")) if item in items}
    todo = [entry for entry in entries if entry.family in wanted and not (data / entry.name / "speed.json").is_file()]
    for number, entry in enumerate(todo):
        report(f"timing {entry.name}", number, len(todo))
        summary = json.loads((data / entry.name / "summary.json").read_text())
        model, task = load(entry.path(zoo, recipe)), load_task(entry.task(recipe))
        found = speed(model, task, models.settings(entry, recipe), summary)
        with atomic_path(data / entry.name / "speed.json") as temporary:
            temporary.write_text(json.dumps(found, indent=1) + "\n")


def _reporter(report: Report, name: str) -> Callable[[dict[str, Any], int, int], None]:
    return lambda row, done, total: report(f"{name}: {row['variant']} at {row['ratio']:.0%}", done, total)


def timed_variants(settings: Settings) -> list[str]:
    """AIRE as in the paper, and the last of ours."""
    return ["aire", settings.variants[-1].name]


@torch.inference_mode()
def speed(model: nn.Module, task: Task, settings: Settings, summary: dict[str, Any]) -> dict[str, Any]:
    """Forward time of the full model over that of the pruned ones at their safe ratios, taking turns."""
    pruner, pruned = Pruner(model, task, settings), {}
    for variant in settings.variants:
        at = summary["variants"][variant.name]["safe"]["ratio"]
        if variant.name in timed_variants(settings) and at:
            pruned[variant.name] = pruner(Cell(variant, at)).eval()
    batch = task.test.rows(slice(0, TIMED_BATCH))
    everyone = {"full": model.eval(), **pruned}
    runs = {name: (lambda m=m: forward(m, task, batch)) for name, m in everyone.items()}
    times = take_turns(runs, TIMED_ROUNDS)
    found: dict[str, Any] = {"batch": TIMED_BATCH, "length": task.length, "threads": torch.get_num_threads()}
    for name in pruned:
        middle, low, high = ratio(times["full"], times[name])
        found[name] = {"speedup": middle, "quartiles": [low, high]}
    return found
