"""The one walk: open, measure, plan, operate, apply, calibrate, write. Every way to prune goes down this page.

a module       prune_module       measure -> plan -> operate -> apply -> fit readouts
a checkpoint   prune_checkpoint   plan -> operate -> apply -> write, streamed, without building the model
                                  calibrated, or into our own format: the model is built and goes through
                                  prune_module, and what changed in it is written under the file's names
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from aireprune.errors import AireError
from aireprune.files.atomic import refuse_existing
from aireprune.method.evidence import Evidence
from aireprune.method.methods import find_method
from aireprune.pruning.plan import Plan
from aireprune.pruning.planning import make_plan, require_lti
from aireprune.pruning.request import Calibration, Job
from aireprune.pruning.rows import row_notes, with_short_rows
from aireprune.pruning.source import FileSource, ModuleSource, Source, open_module
from aireprune.pruning.surgery import Surgery, operate

if TYPE_CHECKING:
    from torch import nn

    from aireprune.calibration.inputs import Inputs


@dataclass(frozen=True)
class Pruned:
    """What came out: the plan that was applied, what a user should know, and the model if one was built."""

    plan: Plan
    notices: tuple[str, ...]
    model: nn.Module | None = None


@dataclass(frozen=True)
class Measured:
    """What is known from data: evidence about the full model, and the inputs that readouts are fitted on."""

    evidence: Evidence
    inputs: Inputs | None = None


def prune_module(source: ModuleSource, job: Job, measured: Measured | None = None) -> Pruned:
    """A smaller copy of a module. measured: what `measure` found for such a job, if it was asked before."""
    check_job(source, job)
    known = measured or measure(source, job, read_calibration(job.calibration))
    plan = decide(source, job, known.evidence)
    surgery = operate(source, plan, known.evidence, job.mask)
    model, plan = source.apply(surgery), surgery.certified(plan)
    if known.inputs is not None:
        from aireprune.calibration.readout import calibrate

        model = calibrate(source.module, model, known.inputs)
        # the certificate speaks of the reduction alone, not of readouts that were fitted afterwards
        plan = replace(plan, certificate=None, calibrated=len(known.inputs))
    model.plan = plan  # type: ignore[assignment]  # what `save` writes beside the weights
    return Pruned(plan, (*source.notices, *_notes(plan)), model)


def prune_checkpoint(source: FileSource, target: Path, job: Job, overwrite: bool = False) -> Pruned:
    """A smaller checkpoint at `target`, of the same kind; without a suffix, a single file becomes our own folder."""
    refuse_existing(target, overwrite)
    check_job(source, job)
    own_format = source.is_file and not target.suffix
    job = with_short_rows(job, source, target)
    if own_format or job.calibration is not None:
        return _through_the_model(source, target, job, overwrite, own_format)
    plan = decide(source, job, job.evidence)
    surgery = operate(source, plan, job.evidence, job.mask)
    plan = surgery.certified(plan)
    source.apply(surgery).write(target, plan, overwrite)
    return Pruned(plan, (*source.notices, *_notes(plan), *row_notes(source, job, plan, surgery.sizes)))


def _through_the_model(source: FileSource, target: Path, job: Job, overwrite: bool, own_format: bool) -> Pruned:
    from aireprune.models.rewriting import changed_arrays
    from aireprune.models.saving import save_model

    inputs = read_calibration(job.calibration)  # what cannot be read is said before a model is built
    full = source.build()
    module = open_module(full, units=job.units, origin=source.origin)
    done = prune_module(module, job, measure(module, job, inputs))
    assert done.model is not None
    notices = (*source.notices, *done.notices)
    if own_format:
        save_model(done.model, target, {"plan.json": done.plan.to_json()}, overwrite)
        return Pruned(done.plan, notices, done.model)
    plan = done.plan.named_after(source.layers)
    sizes = [layer.states // layer.rows for layer in open_module(done.model, units=job.units).layers]
    edits = changed_arrays(source.checkpoint.shapes, full, done.model)
    source.apply(Surgery(edits, sizes, ())).write(target, plan, overwrite)
    return Pruned(plan, (*notices, *row_notes(source, job, plan, sizes)), done.model)


def check_job(source: Source, job: Job) -> None:
    """Raise if the job cannot be done to this source, before anything is measured or built."""
    if job.reduce != "truncate":
        require_lti(source, job.reduce)
        if isinstance(source, ModuleSource):
            from aireprune.models.editing import check_editable

            check_editable(source.module, source.layers, linear=True)
    if job.calibration is not None:
        _check_own(source)


def _check_own(source: Source) -> None:
    """Calibration walks through our own model classes."""
    from aireprune.models.arrays import is_own
    from aireprune.models.build import own_family

    foreign = source.kind
    if isinstance(source, ModuleSource):
        if is_own(source.module):
            return
        foreign = type(source.module).__name__
    elif source.kind != "huggingface":
        own_family(source)
        return
    raise AireError(
        f"{source.name}: calibration walks through aireprune's own models (S5, S4D, Mamba), and this is a {foreign} model."
    )


def read_calibration(calibration: Calibration | None) -> Inputs | None:
    """The inputs to calibrate with, read and checked."""
    if calibration is None:
        return None
    from aireprune.calibration.inputs import read_inputs

    return read_inputs(calibration.source, calibration.count)


def measure(source: ModuleSource, job: Job, inputs: Inputs | None) -> Measured:
    """What the job wants to know about the full model, as far as it is not given."""
    if inputs is None:
        return Measured(job.evidence)
    from aireprune.calibration.covariance import measured_covariances
    from aireprune.calibration.damage import measured_scores

    covariances, scores = job.evidence.covariances, job.evidence.scores
    if job.reduce != "truncate" and covariances is None:
        covariances = measured_covariances(source.module, source, inputs)
    method = find_method(job.request.method) if job.request is not None else None
    if method is not None and method.measured and scores is None:
        scores = measured_scores(source.module, inputs, method.criterion)
    return Measured(Evidence(covariances=covariances, scores=scores), inputs)


def decide(source: Source, job: Job, evidence: Evidence) -> Plan:
    """The plan that was given, checked, or a new one."""
    if job.plan is None:
        assert job.request is not None
        return make_plan(source, job.request, evidence, source.origin)
    job.plan.check(source)
    return replace(job.plan, source=source.origin or job.plan.source).named_after(source.layers)


def _notes(plan: Plan) -> tuple[str, ...]:
    """What went another way than planned in a layer."""
    return tuple(f"{layer['name']}: {note}" for layer in plan.certificate or () for note in layer["notes"])
