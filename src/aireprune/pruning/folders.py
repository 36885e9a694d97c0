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

from aireprune.arrays import Added, Edit, NamedArrays, Shape
from aireprune.calibration.checks import DID_NOT_HELP
from aireprune.calibration.comparison import Fit, measure_fit
from aireprune.calibration.inputs import ArrayInputs, Inputs
from aireprune.calibration.readout import Progress, Walk
from aireprune.calibration.running import running
from aireprune.calibration.subject import Subject
from aireprune.calibration.team import leads, wait_for_all
from aireprune.errors import AireError
from aireprune.families import Layer, find_layers
from aireprune.families.mamba2 import PROJECTIONS
from aireprune.memory import give_back
from aireprune.models.arrays import to_numpy
from aireprune.models.huggingface import empty_model
from aireprune.models.streamed import CAPACITY, Streamed
from aireprune.pruning.layer_store import LayerStore
from aireprune.pruning.plan import Plan
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
    """Named arrays as they are after edits or, where there are fitted ones, as these."""

    def __init__(self, arrays: NamedArrays, edits: Mapping[str, Edit], shapes: Mapping[str, Shape]):
        self.arrays, self.edits, self.shapes = arrays, edits, shapes
        self.fitted: LayerStore | None = None

    def __getitem__(self, name: str) -> np.ndarray:
        return self.fitted[name] if self.fitted is not None and name in self.fitted else self.reduced(name)

    def reduced(self, name: str) -> np.ndarray:
        """Before anything was fitted."""
        edit = self.edits.get(name)
        if isinstance(edit, Added):
            return edit.values
        return self.arrays[name] if edit is None else edit(self.arrays[name])


def opened(source: FileSource, capacity: int = CAPACITY) -> StreamedModel:
    """The full model of a folder; it can be called while its stream is running."""
    stream = Streamed(empty_model(source, source.checkpoint, _sizes(source.layers)), source.arrays, capacity)
    return StreamedModel(stream, source.arrays, source.layers)


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
    """The surgery with fitted readouts, if they helped; how far the outputs are; where fitted layers are until the folder
    is written; remarks."""

    surgery: Surgery
    plan: Plan
    fit: Fit
    store: LayerStore
    remarks: tuple[str, ...] = ()


def fit_folder(job: FolderFit, surgery: Surgery, plan: Plan) -> Fitted:
    """Fit the readouts of a reduced folder that is not written yet."""
    source, inputs, full, sizes = job.source, job.inputs, job.full.stream, list(surgery.sizes)
    projected = plan.reduce == "projected"
    plain, student = (empty_model(source, source.checkpoint, sizes, projected) for _ in range(2))
    arrays = [EditedArrays(source.arrays, surgery.edits, job.shapes(plain)) for _ in range(2)]
    before, after = Streamed(plain, arrays[0], full.capacity), Streamed(student, arrays[1], full.capacity)
    store = _opened_store(job, plan)
    arrays[1].fitted = store
    layers = find_layers(arrays[0], source.config, plan.units, source.name)  # where their rows are now
    with before.running(), after.running():
        with running(full.module, student):
            walk = Walk(job.subject, student, layers, inputs, full.capacity, plan.reduce == "fitted")
            walk.go(_Kept(full, after, arrays[1], store, job.report))
        fit = measure_fit(job.subject, plain, student, inputs)
    if not fit.helped:
        return Fitted(surgery, plan, fit, store, (DID_NOT_HELP,))
    edits = {**surgery.edits, **{name: _from(store, name, surgery.edits.get(name)) for name in store.arrays}}
    # the certificate speaks of the reduction alone, not of readouts that were fitted afterwards
    plan = replace(plan, certificate=None, calibrated=len(inputs))
    return Fitted(replace(surgery, edits=edits), plan, fit, store)


def _opened_store(job: FolderFit, plan: Plan) -> LayerStore:
    """Where fitted layers are kept; one process of a team begins it, the others join."""
    belongs = {"plan": plan.to_json(), "source": _stamp(job.source), "inputs": digest(job.inputs)}
    if leads():
        store = LayerStore(job.target, belongs)
        wait_for_all()
        return store
    wait_for_all()
    return LayerStore(job.target, belongs, begin=False)


def _from(store: LayerStore, name: str, edit: Edit | None) -> Edit:
    """The edit that stores fitted values where the surgery would store others."""
    return Added(store[name], edit.like) if isinstance(edit, Added) else lambda old: store[name]


class _Kept(Progress):
    """What was fitted goes to disk at once; what an earlier run fitted is taken from there.

    Of a team, the first process writes and the others take it.
    """

    def __init__(self, full: Streamed, student: Streamed, arrays: EditedArrays, store: LayerStore, report: Report):
        self.full, self.student, self.arrays, self.store = full, student, arrays, store
        self.report, self.done = report, 0

    def is_done(self, name: str) -> bool:
        found = self.store.take(name)
        wait_for_all()  # nobody writes what another one is still looking for
        if not found:
            return False
        self._tell(name, "was calibrated before")
        return True

    def finished(self, name: str) -> None:
        if leads():
            self._save(name)
        wait_for_all()
        if not self.store.take(name):
            raise AireError(f"{self.store.folder} is not on a disk that all nodes have: layer {name} is missing.")
        give_back()
        self._tell(name, "is calibrated")

    def _save(self, name: str) -> None:
        tensors = self.student.module.get_submodule(name).state_dict()
        found = {f"{name}.{key}": to_numpy(tensor) for key, tensor in tensors.items()}
        known = {key: values for key, values in found.items() if key in self.arrays.shapes}
        self.store.save(name, {key: v for key, v in known.items() if not np.array_equal(v, self.arrays.reduced(key))})

    def _tell(self, name: str, what: str) -> None:
        self.done += 1
        self.report(f"layer {self.done}: {name} {what}")

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
