"""Doing what the tables and figures need: sweeps and ablations, each kept as data and done once."""

from __future__ import annotations

from collections.abc import Callable

from aireprune.experiments.cells import Result
from aireprune.experiments.paper.models import ablation_request, sweep_request
from aireprune.experiments.paper.reproduction import Reproduction
from aireprune.experiments.paper.seeds import seed_request
from aireprune.experiments.pruner import load_model
from aireprune.experiments.sweep import Setting, run_sweep
from aireprune.experiments.workers import Run, run_here
from aireprune.tasks import load_task

Report = Callable[[str, int, int], None]


def gather(wanted: Reproduction, report: Report, run: Run = run_here) -> None:
    """Do the sweeps that are missing below `data`: NAME/, ablations/NAME/ and seeds/NAME/.

    report(what is done, done, in all). run: who judges the cells.
    """
    setting = Setting(run=run)
    for zoo_model in wanted.models:
        model, task = load_model(wanted.path(zoo_model)), load_task(zoo_model.task(wanted.recipe))
        if wanted.sweeps:
            request = sweep_request(zoo_model, wanted.recipe)
            run_sweep(model, task, request, wanted.sweep_folder(zoo_model), _named(report, zoo_model.name), setting)
        if zoo_model in wanted.ablated:
            request, name = ablation_request(zoo_model, wanted.recipe, task.length), f"{zoo_model.name} ablations"
            run_sweep(model, task, request, wanted.ablation_folder(zoo_model), _named(report, name), setting)
    for zoo_model in (model for group in wanted.seeded for model in group):
        model, task = load_model(wanted.path(zoo_model)), load_task(zoo_model.task(wanted.recipe))
        request, name = seed_request(zoo_model, wanted.recipe), f"{zoo_model.name} of several seeds"
        run_sweep(model, task, request, wanted.seed_folder(zoo_model), _named(report, name), setting)


def _named(report: Report, name: str) -> Callable[[Result, int, int], None]:
    return lambda found, done, total: report(f"{name}: {found.key.variant} at {found.key.ratio:.0%}", done, total)
