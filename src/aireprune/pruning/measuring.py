"""What a job wants to know from unlabelled inputs before it plans: `Evidence` about the full model."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aireprune.method.evidence import Evidence
from aireprune.method.methods import find_method
from aireprune.pruning.request import Job
from aireprune.pruning.source import ModuleSource

if TYPE_CHECKING:
    from aireprune.calibration.damage import Weights
    from aireprune.calibration.inputs import Inputs
    from aireprune.calibration.subject import Opened, Subject


@dataclass(frozen=True)
class Measured:
    """What is known from data: evidence about the full model, the inputs that readouts are fitted on, where its layers
    are called with these, and remarks on them. lessons: the inputs to recover with, if they have been read."""

    evidence: Evidence
    inputs: Inputs | None = None
    subject: Subject | None = None
    remarks: tuple[str, ...] = ()
    lessons: Inputs | None = None


def measure(source: Opened, job: Job, inputs: Inputs | None, weights: Weights | None = None) -> Measured:
    """What the job wants to know about the full model, as far as it is not given.

    weights: makes sure, while it lasts, that the weights of a module are in memory.
    """
    if inputs is None:
        return Measured(job.evidence)
    from aireprune.calibration.checks import check_inputs
    from aireprune.calibration.covariance import measured_covariances
    from aireprune.calibration.damage import measured_scores
    from aireprune.calibration.subject import find_subject

    remarks = check_inputs(source.module, inputs)
    subject, evidence = find_subject(source, inputs), job.evidence
    if job.reduce != "truncate" and evidence.covariances is None:
        evidence = replace(evidence, covariances=measured_covariances(subject, inputs))
    method = find_method(job.request.method) if job.request is not None else None
    if method is not None and method.measured and evidence.scores is None:
        loaded = weights or (lambda name: nullcontext())
        evidence = replace(evidence, scores=measured_scores(subject, inputs, method.criterion, loaded))
    if job.request is not None and job.request.allocate == "measured":
        from aireprune.pruning.allocation import measured_counts

        assert isinstance(source, ModuleSource)
        evidence = replace(evidence, counts=measured_counts(source, job.request, evidence, subject, inputs))
    return Measured(evidence, inputs, subject, tuple(remarks))
