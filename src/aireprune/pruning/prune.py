"""The one walk: open, measure, plan, operate, apply, calibrate, write. Every way to prune goes down this page.

a module       prune_module       measure -> plan -> operate -> apply -> fit readouts -> recover
a checkpoint   prune_checkpoint   plan -> operate -> apply -> write, streamed, without building the model
                                  calibrated, recovered or into our own format: the model is built and goes
                                  through prune_module, and what changed is written under the file's names
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aireprune.errors import AireError
from aireprune.files.shards import check_disk
from aireprune.files.writing.atomic import refuse_existing
from aireprune.method.methods import find_method
from aireprune.method.reductions import find_reduction
from aireprune.pruning.calibrating import (
    fitted_on_layers,
    measured_on_layers,
    read_calibration,
    read_layer_inputs,
    read_recovery,
)
from aireprune.pruning.companions import keep_plan, texts_for
from aireprune.pruning.defaults import TRUNCATED, plainly, settle
from aireprune.pruning.fitting import check_output
from aireprune.pruning.harm import check_damage, notes_on
from aireprune.pruning.horizon import within_inputs
from aireprune.pruning.layers import Unsuitable
from aireprune.pruning.measuring import Measured, measure
from aireprune.pruning.outcome import Pruned
from aireprune.pruning.planning import LTI_ONLY, check_reduction, plan_of
from aireprune.pruning.request import Job
from aireprune.pruning.rows import row_notes, with_short_rows
from aireprune.pruning.selective import with_measured_errors
from aireprune.pruning.settling import settled_by_inputs
from aireprune.pruning.source import FileSource, ModuleSource, Source, open_module
from aireprune.pruning.surgery import Surgery, operate

if TYPE_CHECKING:
    from aireprune.calibration.inputs import Inputs
    from aireprune.pruning.folders import Fitted

Report = Callable[[str], None]  # told of layers that are calibrated, and of a recovery


def prune_module(
    source: ModuleSource,
    job: Job,
    measured: Measured | None = None,
    target: Path | None = None,
    report: Report = lambda line: None,
) -> Pruned:
    """A smaller copy of a module. measured: what `measure` found for such a job, if it was asked before.

    target: where it will be written, so that a recovery that is interrupted is kept beside. report: told of the way.
    """
    source, job = settle(source, job, own=source.is_own)
    done = or_plainly(job, lambda settled: _prune_module(source, settled, measured, report))
    return _recovered(source, done, job, None if measured is None else measured.lessons, target, report)


def _prune_module(source: ModuleSource, job: Job, measured: Measured | None, report: Report) -> Pruned:
    check_job(source, job)
    inputs = read_calibration(source, job.calibration) if measured is None else measured.inputs

    def reduce(job: Job, known: Measured) -> Pruned:
        return _reduced(source, job, known, report)

    return within_inputs(source, job, inputs, reduce, measured, report)


def _recovered(
    source: ModuleSource, done: Pruned, job: Job, lessons: Inputs | None, target: Path | None, report: Report
) -> Pruned:
    """What came of a job, recovered if the job says so."""
    if job.recovery is None:
        return done
    from aireprune.pruning.recovering import Place, recovered

    return recovered(source, done, job, lessons, Place(target, report))


def _reduced(source: ModuleSource, job: Job, known: Measured, report: Report) -> Pruned:
    """A smaller copy of a module, of which all that the job wants to know has been measured."""
    plan = plan_of(source, job, known.evidence)
    surgery = operate(source, plan, known.evidence, job.mask, accounted=job.certified)
    check_damage(surgery, plan, job, known.evidence)
    plan = with_measured_errors(surgery.certified(plan), surgery.projections, known.subject, known.inputs)
    model = source.apply(surgery)
    notices, fit = (*source.notices, *known.remarks, *notes_on(plan, source.layers)), None
    if known.inputs is not None and known.subject is not None:
        from aireprune.calibration.checks import DID_NOT_HELP, fit_if_it_helps
        from aireprune.calibration.telling import Telling

        reduced = open_module(model, config=source.settings, units=job.units)
        telling = Telling(report, [site.module for site in known.subject.sites])
        model, fit = fit_if_it_helps(known.subject, reduced, known.inputs, plan.reduce == "fitted", telling)
        if fit.helped:
            # the certificate speaks of the reduction alone, not of readouts that were fitted afterwards
            plan = replace(plan, certificate=None, calibrated=len(known.inputs))
        elif surgery.edits:
            notices = (*notices, DID_NOT_HELP)
    keep_plan(model, plan)
    return Pruned(plan, notices, model, fit)


def prune_checkpoint(
    source: FileSource,
    target: Path,
    job: Job,
    overwrite: bool = False,
    report: Report = lambda line: None,
) -> Pruned:
    """A smaller checkpoint at `target`, of the same kind; without a suffix, a single file becomes our own folder.

    report: told of every layer of a large folder that is calibrated, and of how far a recovery is.
    """
    refuse_existing(target, overwrite)
    source.check_copy(target)
    check_output(job, source.writes_own(target))
    source, job = settle(source, job, own=source.writes_own(target))
    done = or_plainly(job, lambda settled: _prune_checkpoint(source, target, settled, overwrite, report))
    if job.recovery is not None:
        from aireprune.pruning.recovery_store import forget_recovery

        forget_recovery(target)
    return done


def _prune_checkpoint(source: FileSource, target: Path, job: Job, overwrite: bool, report: Report) -> Pruned:
    check_job(source, job)
    job = with_short_rows(job, source, target)
    given = read_layer_inputs(source, job.calibration)
    if source.kind == "huggingface" and job.calibration is not None and given is None and not job.needs_the_model:
        return _calibrated_folder(source, target, job, overwrite, report)
    if given is None and (source.becomes_own(target) or job.calibration is not None):
        return _through_the_model(source, target, job, overwrite, report)
    evidence = job.evidence if given is None else measured_on_layers(source, job, given)
    plan = plan_of(source, job, evidence)
    surgery = operate(source, plan, evidence, job.mask)
    check_damage(surgery, plan, job, evidence)
    plan = source.with_diagonal_errors(surgery.certified(plan))
    notes = (*source.notices, *notes_on(plan, source.layers))
    if given is not None:
        surgery, plan, remarks = fitted_on_layers(source, surgery, plan, given)
        notes = (*notes, *remarks)
    done = Pruned(plan, (*notes, *row_notes(source, job, plan, surgery.sizes)))
    texts = texts_for(source, done, target, job.mask)
    source.apply(surgery).write(target, texts, overwrite, replace(job.shards, report=report))
    return done


def prune_from_file(source: FileSource, job: Job) -> Pruned:
    """A smaller model of a checkpoint, in memory. It is planned on the file, under the names that the file has."""
    own = source.kind != "huggingface" and source.builder is None
    source, job = settle(source, job, own)
    return or_plainly(job, lambda settled: _prune_from_file(source, settled))


def _prune_from_file(
    source: FileSource, job: Job, target: Path | None = None, report: Report = lambda line: None
) -> Pruned:
    check_job(source, job)
    inputs = read_calibration(source, job.calibration)  # what cannot be read is said before a model is built
    lessons = read_recovery(source, job)
    source = settled_by_inputs(source, lambda: inputs)
    if inputs is None:
        job = replace(job, request=None, plan=plan_of(source, job, job.evidence))
    config = None if source.builder is None else source.config  # a stranger's module says little about itself
    module = open_module(source.build(), config, job.units, source.origin)
    check_job(module, job)

    def reduce(job: Job, known: Measured) -> Pruned:
        if job.plan is None:
            job = replace(job, request=None, plan=plan_of(source, job, known.evidence))
        return _reduced(module, job, known, report)

    done = within_inputs(module, job, inputs, reduce, report=report)
    done = _recovered(module, done, job, lessons, target, report)
    assert done.model is not None
    plan = source.with_diagonal_errors(done.plan.named_after(source.layers))
    keep_plan(done.model, plan)
    return replace(done, plan=plan, notices=(*source.notices, *done.notices), full=module.module)


def _through_the_model(source: FileSource, target: Path, job: Job, overwrite: bool, report: Report) -> Pruned:
    """The same, written at `target`."""
    from aireprune.models.rewriting import changed_arrays
    from aireprune.models.saving import save_model

    source = settled_by_inputs(source, lambda: read_calibration(source, job.calibration))
    done = _prune_from_file(source, job, target, report)
    assert done.model is not None
    assert done.full is not None
    if source.becomes_own(target):
        save_model(done.model, target, overwrite)
        return done
    config = None if source.builder is None else source.config
    sizes = [layer.states // (layer.rows * layer.groups) for layer in open_module(done.model, config, job.units).layers]
    edits = changed_arrays(source.arrays.shapes, done.full, done.model)
    texts = texts_for(source, done, target, job.mask)
    source.apply(Surgery(edits, sizes, ())).write(target, texts, overwrite)
    return replace(done, notices=(*done.notices, *row_notes(source, job, done.plan, sizes)))


def _calibrated_folder(source: FileSource, target: Path, job: Job, overwrite: bool, report: Report) -> Pruned:
    """A Hugging Face folder with calibrated readouts, layer by layer."""
    from aireprune.models.editing import check_projectable
    from aireprune.models.streamed import UnmatchedNamesError
    from aireprune.pruning.folders import opened

    inputs = read_calibration(source, job.calibration)
    assert inputs is not None
    try:
        streamed = opened(source)
    except UnmatchedNamesError:
        return _through_the_model(source, target, job, overwrite, report)
    if job.reduce == "projected":
        check_projectable(streamed.module, source.layers)
    work = partial(_fitted_folder, source, target, job)
    if job.shards.ray is None:
        fitted, notes = work(report)
    else:
        from aireprune.calibration.on_ray import run_as_team

        fitted, notes = run_as_team(job.shards.ray, work, inputs.batches // 2, report)
    done = Pruned(fitted.plan, (*notes, *fitted.remarks), fit=fitted.fit)
    texts = texts_for(source, done, target, job.mask)
    source.apply(fitted.surgery).write(target, texts, overwrite, replace(job.shards, resume=False, report=report))
    fitted.store.remove()
    return done


def _fitted_folder(source: FileSource, target: Path, job: Job, report: Report) -> tuple[Fitted, tuple[str, ...]]:
    """What is to be written, and notes; in every process of a team, each of which runs a share of the inputs."""
    from aireprune.pruning.folders import FolderFit, fit_folder, opened

    check_disk(source.checkpoint.path)
    inputs, streamed = read_calibration(source, job.calibration), opened(source)
    assert inputs is not None
    with streamed.stream.running():
        known = measure(streamed, job, inputs, streamed.stream.loaded)
        assert known.subject is not None
        plan, subject = plan_of(source, job, known.evidence), known.subject
        surgery = operate(source, plan, known.evidence, job.mask)
        check_damage(surgery, plan, job, known.evidence)
        plan = with_measured_errors(surgery.certified(plan), surgery.projections, subject, inputs)
        notes = (*source.notices, *known.remarks, *notes_on(plan, source.layers))
        fit = FolderFit(source=source, full=streamed, subject=subject, inputs=inputs, target=target, report=report)
        return fit_folder(fit, surgery, plan), notes


def or_plainly(job: Job, run: Callable[[Job], Pruned]) -> Pruned:
    """What comes of the job, or, where a way that nobody named does not suit the model, of plain removal by aire."""
    try:
        return run(job)
    except AireError as problem:
        request = job.request
        if request is None or not request.fallback:
            raise
        if isinstance(problem, Unsuitable):
            why = f"{problem.reason}, so {TRUNCATED}."
        elif find_method(request.method).measured or find_reduction(request.reduce).selective:
            # a module whose inside is not known, or too few tokens
            why = f"states were ranked by method='aire' without data: {problem}"
        else:
            raise
        done = run(plainly(job))
        return replace(done, notices=(*done.notices, why))


def check_job(source: Source, job: Job) -> None:
    """Raise if the job cannot be done to this source, before anything is measured or built."""
    check_reduction(source, job.reduce)
    if job.reduce != "truncate" and isinstance(source, ModuleSource):
        from aireprune.models.editing import check_editable, check_projectable

        check_editable(source.module, source.layers, linear=job.reduce in LTI_ONLY)
        if job.reduce == "projected":
            check_projectable(source.module, source.layers)
