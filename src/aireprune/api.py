"""The public functions. Each takes a model in memory or a path to a checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from aireprune.errors import Notice
from aireprune.families import StateAxes, Units
from aireprune.files.base import Checkpoint
from aireprune.method.methods import METHODS, Method
from aireprune.pruning.overview import Overview, overview
from aireprune.pruning.plan import Plan
from aireprune.pruning.planning import make_plan
from aireprune.pruning.prune import prune_checkpoint, prune_from_file, prune_module
from aireprune.pruning.ranking import Ranking, ScoreChoices, rank
from aireprune.pruning.request import CALIBRATION_COUNT, PlanChoices, PruneChoices, make_job, make_request
from aireprune.pruning.rows import short_rows
from aireprune.pruning.source import ConfigLike, FileSource, open_file, open_source

if TYPE_CHECKING:
    from torch import nn

    from aireprune.calibration.inputs import InputSource
    from aireprune.experiments.cells import Result
    from aireprune.experiments.request import SweepChoices
    from aireprune.experiments.summary import Summary
    from aireprune.reports.explorer import ExploreChoices
    from aireprune.reports.page import Page
    from aireprune.tasks.base import Task

    ModelOrPath = nn.Module | str | Path


def methods() -> dict[str, Method]:
    """Every pruning method by name: its criterion, normalisation and scope."""
    return dict(METHODS)


def inspect(model_or_path: ModelOrPath, *, config: ConfigLike = None, state_axis: Sequence[str] = ()) -> Overview:
    """What a model holds: its layers, their states, stability margins, memories and shares of the energy."""
    source = open_source(model_or_path, config, Units(state_axes=StateAxes.parse(state_axis)))
    _tell(source.notices)
    return overview(source)


def score(
    model_or_path: ModelOrPath, method: str = "aire", *, config: ConfigLike = None, **choices: Unpack[ScoreChoices]
) -> Ranking:
    """Every state with its score, best first in each layer.

    horizon, seed, granularity, state_axis, measured: as in `plan`.
    """
    axes = StateAxes.parse(choices.get("state_axis", ()))
    source = open_source(model_or_path, config, Units(granularity=choices.get("granularity", "mode"), state_axes=axes))
    _tell(source.notices)
    return rank(source, method, choices)


def load(path: str | Path, config: ConfigLike = None, *, state_axis: Sequence[str] = ()) -> nn.Module:
    """The model of a checkpoint, in evaluation mode, with its weights as they are on disk.

    `config` (a mapping or a JSON file) supplies what a Flax or bare weight file does not say; by default it is looked
    for in NAME.json beside the file. Hugging Face folders are loaded with transformers, and code that they bring along
    is never run. state_axis: as in `plan`.
    """
    return open_file(path, config, Units(state_axes=StateAxes.parse(state_axis))).build()


def save(model: nn.Module, path: str | Path, overwrite: bool = False) -> None:
    """Write one of our models as a folder: config.json, model.safetensors and, if it was pruned, plan.json."""
    from aireprune.models.saving import save_model

    save_model(model, path, overwrite)


def accelerate(model: nn.Module) -> nn.Module:
    """Give every Mamba and Mamba-2 mixer of a transformers model on a CPU the fast scans, in place; returns the model."""
    from aireprune.models.accelerate import accelerate as run

    return run(model)


def plan(
    model_or_path: ModelOrPath | Checkpoint,
    method: str = "aire",
    ratio: float | None = None,
    *,
    config: ConfigLike = None,
    **choices: Unpack[PlanChoices],
) -> Plan:
    """Score every state and decide which stay.

    ratio: share of all states to remove (0 to 1); or threshold=: the score below which states go.
    min_states=1: at least so many stay in every layer. epsilon=0: added to the prefix sums; with min_states=0 it lets
    whole layers go. horizon=: count the energy of the first so many steps only. seed=0: for method 'random'.
    unstable: what to do about poles with |lambda| >= 1: 'refuse' (raise) or 'keep' (they always stay).
    layout: 'adaptive' (every layer its own size), 'uniform' (one size for all) or 'padded' (chosen as adaptive, filled
    up to one size). granularity (S4D): 'mode', every channel chooses its own, or 'state', one index for all channels.
    state_axis: 'NAME=AXIS' of tensors that no family knows but that lie along the states ('NAME=none': they do not).
    round_to=1: round the states kept in every layer (and group) up to a multiple.
    reduce: 'truncate' (kept states stay as they are), 'refit' (they get the H2-optimal readout) or 'balanced' (balanced
    truncation, which ranks its new states by squared Hankel singular values; method 'aire' only). S5, LRU and S4D.
    covariances: for 'balanced', measured ones of the states (Re x, Im x) of each layer in place of closed forms.
    measured: for '…-calibrated' methods, the scores of each layer's states (`calibration.damage.measured_scores`).
    """
    request, evidence = make_request(method, ratio, choices)
    source = open_source(model_or_path, config, request.units)
    _tell(source.notices)
    if isinstance(source, FileSource):  # as `prune_file` decides for a copy of the same kind
        request = short_rows(request, source)
    return make_plan(source, request, evidence, source.origin)


def prune(
    model_or_path: ModelOrPath,
    plan: Plan | None = None,
    *,
    config: ConfigLike = None,
    **choices: Unpack[PruneChoices],
) -> nn.Module:
    """A new, smaller model; the one given stays as it is. Give a plan, or what `plan` takes to make one (ratio=0.5).

    Works on our own models, transformers (Mamba, Mamba-2, FalconMamba, Jamba), mambapy and s5-pytorch modules.
    mask=True: silence the states instead of taking them out (same shapes, same outputs as the removal).
    covariances: measured ones of the states of each layer, which balancing and refitting use in place of closed forms.
    calibrate (our own models): unlabelled inputs, as an array, a task's name, a .npy or .npz file or a directory of
    them; at most calibrate_count=256 sequences are used. Covariances are then measured, and readouts fitted to the
    full model. The plan that was applied, with its certificate, is the attribute `plan` of the new model.
    """
    job = make_job(plan, choices)
    source = open_source(model_or_path, config, job.units)
    done = prune_from_file(source, job) if isinstance(source, FileSource) else prune_module(source, job)
    _tell(done.notices)
    assert done.model is not None
    return done.model


def calibrate(full: nn.Module, reduced: nn.Module, inputs: InputSource, count: int = CALIBRATION_COUNT) -> nn.Module:
    """A reduced model with readouts fitted to the full one on unlabelled inputs (our own models).

    Where they do not help on inputs that were held out, it is the reduced model itself.

    inputs: an array of model inputs, a task's name, a .npy or .npz file, or a directory of them.
    """
    from aireprune.calibration.checks import DID_NOT_HELP, check_inputs, fit_if_it_helps
    from aireprune.calibration.inputs import read_inputs

    given = read_inputs(inputs, count)
    _tell(check_inputs(full, given))
    fitted, fit = fit_if_it_helps(full, reduced, given)
    if not fit.helped:
        _tell([DID_NOT_HELP])
    return fitted


def prune_file(
    source: str | Path | Checkpoint,
    target: str | Path,
    plan: Plan | None = None,
    *,
    overwrite: bool = False,
    config: ConfigLike = None,
    **choices: Unpack[PruneChoices],
) -> Plan:
    """Prune a checkpoint on disk into a new one of the same kind, without building the model; returns the plan applied.

    A target without a suffix, for a source that is a single file, becomes a folder in our own format; that builds the
    model, and so does calibration. The choices are those of `prune`.
    """
    job = make_job(plan, choices)
    done = prune_checkpoint(open_file(source, config, job.units), Path(target), job, overwrite)
    _tell(done.notices)
    return done.plan


def sweep(
    model_or_path: ModelOrPath,
    task: str | Task,
    out: str | Path,
    *,
    config: ConfigLike = None,
    progress: Callable[[Result, int, int], None] | None = None,
    **choices: Unpack[SweepChoices],
) -> Summary:
    """Prune with every method at every ratio, judge each model on a task, and write it all into the folder `out`.

    methods, reduce: what to compare; ratios; seeds=3: of method 'random'; examples=1000: at most so many of validation
    and of test, 0 for all; calibrated, calibrate: with fitted readouts too; max_drop=1: what a safe ratio may cost on
    validation, in points. progress(result, cells done, cells in all) is called after every cell. A folder that exists is
    resumed. It gets report.html and, with matplotlib, figures.
    """
    from aireprune.experiments.request import make_sweep_request
    from aireprune.experiments.sweep import run_sweep
    from aireprune.reports.present import present_sweep
    from aireprune.tasks import load_task

    request, source = make_sweep_request(choices), open_source(model_or_path, config)
    model = source.build() if isinstance(source, FileSource) else source.module
    loaded = load_task(task) if isinstance(task, str) else task
    summary = run_sweep(model, loaded, request, Path(out), progress or (lambda *step: None), source.origin)
    _tell((*source.notices, *present_sweep(Path(out), source)))
    return summary


def report(
    what: ModelOrPath,
    out: str | Path | None = None,
    *,
    original: ModelOrPath | None = None,
    task: str | None = None,
    examples: int = 1000,
    config: ConfigLike = None,
) -> Page:
    """Write one HTML file about a model, a checkpoint (pruned or not), a plan file or the folder of a sweep.

    out: by default report.html in the folder, or beside the file. original: by default the one that the plan or sweep
    names. task: both models are judged on so many of its test examples ('digits': those embedded), and timed.
    """
    from aireprune.reports.gather import Judged, document_of
    from aireprune.reports.page import write_page
    from aireprune.reports.place import place_of
    from aireprune.reports.subject import find_subject

    path = place_of(what, out)
    document = document_of(
        find_subject(what, original, config), None if task is None else Judged(task=task, examples=examples)
    )
    _tell(document.notices)
    return write_page(document, path)


def explore(
    model_or_path: ModelOrPath,
    out: str | Path | None = None,
    ratio: float = 0.5,
    *,
    config: ConfigLike = None,
    **choices: Unpack[ExploreChoices],
) -> Page:
    """Write one HTML file in which the ratio, the method and more can be changed, and the plan saved.

    horizon, seed, unstable, layout, granularity, state_axis: as in `plan`; the page cannot change these.
    """
    from aireprune.reports.explorer import exploration_document, make_exploration
    from aireprune.reports.page import write_page
    from aireprune.reports.place import place_of

    path, wanted = place_of(model_or_path, out, "explore.html"), make_exploration(ratio, choices)
    document = exploration_document(open_source(model_or_path, config, wanted.request().units), wanted)
    _tell(document.notices)
    return write_page(document, path)


def _tell(notices: Iterable[str]) -> None:
    """Python's way to say something without failing; the command line prints notes instead."""
    for notice in notices:
        warnings.warn(notice, Notice, stacklevel=3)
