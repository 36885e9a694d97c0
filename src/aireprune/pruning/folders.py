"""Calibrated pruning of a Hugging Face folder, layer by layer: the models need not fit into memory.

Both models are run with weights that are read from the folder when they are needed (`aireprune.models.streamed`).
Activations of the present depth are in files beyond a limit, and every finished layer is on disk, so that an
interrupted run goes on where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aireprune.arrays import Added, Edit, NamedArrays, Shape, instead
from aireprune.calibration.checks import DID_NOT_HELP, check_inputs
from aireprune.calibration.comparison import Fit, measure_fit
from aireprune.calibration.inputs import ArrayInputs, Inputs
from aireprune.calibration.readout import Progress, Walk
from aireprune.calibration.running import running
from aireprune.calibration.subject import Subject, find_subject
from aireprune.families import Layer
from aireprune.families.mamba2 import PROJECTIONS
from aireprune.method.evidence import Evidence
from aireprune.models.arrays import to_numpy
from aireprune.models.huggingface import empty_model
from aireprune.models.streamed import CAPACITY, Streamed
from aireprune.pruning.layer_store import LayerStore
from aireprune.pruning.plan import Plan
from aireprune.pruning.request import Job
from aireprune.pruning.source import FileSource
from aireprune.pruning.surgery import Surgery

if TYPE_CHECKING:
    from torch import nn

Report = Callable[[str], None]


@dataclass(frozen=True)
class StreamedModel:
    """The model of a folder, as calibration opens models."""

    stream: Streamed
    arrays: NamedArrays
    layers: list[Layer[Any]]

    @property
    def module(self) -> nn.Module:
        return self.stream.module


class EditedArrays:
    """Named arrays as they are after edits and, where given, replacements."""

    def __init__(self, arrays: NamedArrays, edits: Mapping[str, Edit], shapes: Mapping[str, Shape]):
        self.arrays, self.edits, self.shapes = arrays, edits, shapes
        self.new: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self.new:
            return self.new[name]
        edit = self.edits.get(name)
        if isinstance(edit, Added):
            return edit.values
        return self.arrays[name] if edit is None else edit(self.arrays[name])


def opened(source: FileSource, capacity: int = CAPACITY) -> StreamedModel:
    """The full model of a folder; it can be called while its stream is running."""
    stream = Streamed(empty_model(source, source.checkpoint, _sizes(source.layers)), source.arrays, capacity)
    return StreamedModel(stream, source.arrays, source.layers)


def measure_folder(full: StreamedModel, job: Job, inputs: Inputs) -> tuple[Subject, Evidence, list[str]]:
    """Where its layers are called, what the job wants to know about them, and remarks on the inputs."""
    from aireprune.calibration.covariance import measured_covariances
    from aireprune.calibration.damage import measured_scores
    from aireprune.method.methods import find_method
    from aireprune.method.reductions import find_reduction

    remarks = check_inputs(full.module, inputs)
    subject, evidence = find_subject(full, inputs), job.evidence
    if find_reduction(job.reduce).selective and evidence.covariances is None:
        evidence = replace(evidence, covariances=measured_covariances(subject, inputs))
    method = find_method(job.request.method) if job.request is not None else None
    if method is not None and method.measured and evidence.scores is None:
        evidence = replace(evidence, scores=measured_scores(subject, inputs, method.criterion, full.stream.loaded))
    return subject, evidence, remarks


@dataclass(frozen=True, kw_only=True)
class FolderFit:
    """A folder to be fitted: where it is from, its full model, where that calls its layers, with what, where it goes.

    report: told of every layer that is done.
    """

    source: FileSource
    full: StreamedModel
    subject: Subject
    inputs: Inputs
    target: Path
    report: Report = lambda line: None

    def shapes(self, module: nn.Module) -> dict[str, Shape]:
        """Of the folder's tensors, once it has the sizes of the module."""
        new = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
        old = self.source.arrays.shapes
        return {name: new.get(name, shape) for name, shape in old.items()} | {
            name: shape for name, shape in new.items() if name.endswith(PROJECTIONS)
        }


@dataclass(frozen=True)
class Fitted:
    """The surgery with fitted readouts, if they helped; how far the outputs are; remarks."""

    surgery: Surgery
    plan: Plan
    fit: Fit
    remarks: tuple[str, ...]


def fit_folder(job: FolderFit, surgery: Surgery, plan: Plan) -> Fitted:
    """Fit the readouts of a reduced folder that is not written yet."""
    source, inputs, full, sizes = job.source, job.inputs, job.full.stream, list(surgery.sizes)
    projected = plan.reduce == "projected"
    plain, student = (empty_model(source, source.checkpoint, sizes, projected) for _ in range(2))
    before, after = (
        Streamed(model, EditedArrays(source.arrays, surgery.edits, job.shapes(model)), full.capacity)
        for model in (plain, student)
    )
    store = LayerStore(job.target, {"plan": plan.to_json(), "source": _stamp(source), "inputs": digest(inputs)})
    layers = [replace(layer, states=size * layer.groups) for layer, size in zip(source.layers, sizes, strict=True)]
    with before.running(), after.running():
        with running(full.module, student):
            walk = Walk(job.subject, student, layers, inputs, full.capacity, plan.reduce == "fitted")
            kept = _Kept(full, after, store, job.report, len(walk.sites))
            walk.go(kept)
        fit = measure_fit(job.subject, plain, student, inputs)
    store.remove()
    if not fit.helped:
        return Fitted(surgery, plan, fit, (DID_NOT_HELP,))
    edits = {**surgery.edits, **{name: _in_place_of(surgery, name, values) for name, values in kept.new.items()}}
    # the certificate speaks of the reduction alone, not of readouts that were fitted afterwards
    return Fitted(replace(surgery, edits=edits), replace(plan, certificate=None, calibrated=len(inputs)), fit, ())


def _in_place_of(surgery: Surgery, name: str, values: np.ndarray) -> Edit:
    """The edit that stores fitted values where the surgery would store others."""
    edit = surgery.edits.get(name)
    return Added(values, edit.like) if isinstance(edit, Added) else instead(values)


class _Kept(Progress):
    """Fitted modules go to disk at once; those of an earlier run are taken from there."""

    def __init__(self, full: Streamed, student: Streamed, store: LayerStore, report: Report, total: int):
        self.full, self.student, self.store = full, student, store
        self.report, self.total, self.done = report, total, 0

    @property
    def new(self) -> dict[str, np.ndarray]:
        """The fitted arrays, which the student reads from now on."""
        assert isinstance(self.student.arrays, EditedArrays)
        return self.student.arrays.new

    def is_done(self, name: str) -> bool:
        found = self.store.load(name)
        if found is None:
            return False
        self.new.update(found)
        self._tell(name, "was calibrated before")
        return True

    def finished(self, name: str) -> None:
        module = self.student.module.get_submodule(name)
        arrays = {f"{name}.{key}": to_numpy(tensor) for key, tensor in module.state_dict().items()}
        known = {key: values for key, values in arrays.items() if key in self.student.arrays.shapes}
        self.store.save(name, known)
        self.new.update(known)
        self._tell(name, "is calibrated")

    def _tell(self, name: str, what: str) -> None:
        self.done += 1
        self.report(f"{self.done} of {self.total}: {name} {what}")

    @contextmanager
    def weights(self, name: str) -> Iterator[None]:
        with self.full.loaded(name), self.student.loaded(name):
            yield


def _sizes(layers: list[Layer[Any]]) -> list[int]:
    return [layer.states // layer.groups for layer in layers]


def _stamp(source: FileSource) -> list[object]:
    """What changes when the folder's files do."""
    files = sorted(path for path in source.checkpoint.path.iterdir() if path.is_file())
    return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]


def digest(inputs: Inputs) -> str:
    """A hash of the inputs."""
    found = hashlib.blake2b(digest_size=16)
    if isinstance(inputs, ArrayInputs):
        found.update(np.ascontiguousarray(inputs.values).data)
        return found.hexdigest()
    for number in range(inputs.batches):
        for tensor in inputs[number].tensors:
            found.update(np.ascontiguousarray(to_numpy(tensor)).data)
    return found.hexdigest()
