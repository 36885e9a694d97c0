"""What to calibrate with, read and checked before any work: inputs of the model, or of its layers where no model can be
built. With the latter, every layer is measured and fitted by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aireprune.arrays import Replaced, instead
from aireprune.errors import AireError, did_you_mean
from aireprune.families import Found, find_layers
from aireprune.method.evidence import Evidence
from aireprune.pruning.plan import Plan
from aireprune.pruning.request import Calibration, Job
from aireprune.pruning.source import FileSource, ModuleSource, Source
from aireprune.pruning.surgery import Surgery

if TYPE_CHECKING:
    from torch import Tensor

    from aireprune.calibration.inputs import ArrayInputs, Inputs

BYTES = 256
LayerInputs = Mapping[str, "ArrayInputs"]  # by the layer's name


def read_calibration(source: Source, calibration: Calibration | None) -> Inputs | None:
    """The inputs of the model to calibrate with."""
    if calibration is None or calibration.source is None:
        return None
    from aireprune.calibration.inputs import read_inputs
    from aireprune.calibration.text import is_text, read_text_inputs

    if is_text(calibration.source):
        path = Path(str(calibration.source))
        return read_text_inputs(path, _tokenizer(source, path), calibration.tokens)
    return read_inputs(calibration.source, calibration.count)


def read_recovery(source: Source, job: Job) -> Inputs | None:
    """The inputs to recover with, as many as the job wants from where it calibrates; too few are refused."""
    if job.recovery is None:
        return None
    from aireprune.calibration.lessons import Lessons
    from aireprune.calibration.text import WINDOW

    assert job.calibration is not None
    count = job.recovery.count
    inputs = read_calibration(source, replace(job.calibration, count=count, tokens=count * WINDOW))
    assert inputs is not None
    Lessons(inputs)
    return inputs


def _tokenizer(source: Source, path: Path) -> Path | None:
    """The folder of a Hugging Face model's tokenizer; None for a model that reads bytes."""
    if isinstance(source, FileSource) and source.kind == "huggingface":
        return source.checkpoint.path
    width = source.config.get("d_input")
    if width == BYTES:
        return None
    if isinstance(source, ModuleSource) or width is None:
        raise AireError(
            f"{source.name} brings no tokenizer, so the text {path} cannot be read as its tokens: give batches of tokens."
        )
    raise AireError(f"{path} is text, but {source.name} takes {width} values per step and no tokens.")


def read_layer_inputs(source: Source, calibration: Calibration | None) -> LayerInputs | None:
    """One array (n, L, h) per layer, from NAME.npy in a folder; every layer must be linear and have one."""
    if calibration is None or calibration.layer_inputs is None:
        return None
    from aireprune.calibration.inputs import ArrayInputs, read_inputs
    from aireprune.calibration.response import response

    folder, found = calibration.layer_inputs, {}
    if not folder.is_dir():
        raise AireError(f"There is no folder {folder} with inputs of the layers.")
    for layer in source.layers:
        file, width = folder / f"{layer.name}.npy", response(layer, source.arrays).width
        if not file.is_file():
            hint = did_you_mean(file.name, (other.name for other in folder.glob("*.npy")))
            raise AireError(f"{folder} holds no {file.name}, the inputs (n, L, {width}) of layer {layer.name}.{hint}")
        given = read_inputs(file, calibration.count)
        assert isinstance(given, ArrayInputs)
        if given.values.shape[2:] != (width,):
            raise AireError(f"{file} has shape {given.values.shape}; layer {layer.name} reads (n, L, {width}).")
        found[layer.name] = given
    return found


def measured_on_layers(source: Source, job: Job, given: LayerInputs) -> Evidence:
    """Covariances of every layer's states under its own inputs, if the reduction asks for them."""
    if job.reduce == "truncate" or job.evidence.covariances is not None:
        return job.evidence
    from aireprune.calibration.covariance import StateMoments
    from aireprune.calibration.response import response

    covariances = []
    for layer in source.layers:
        inputs = given[layer.name]
        moments = StateMoments(response(layer, source.arrays), inputs.values[..., 0].size)
        for number in range(inputs.batches):
            moments.add(inputs[number].first)
        covariances.append(moments.covariance())
    return replace(job.evidence, covariances=covariances)


def fitted_on_layers(
    source: FileSource, surgery: Surgery, plan: Plan, given: LayerInputs
) -> tuple[Surgery, Plan, tuple[str, ...]]:
    """The surgery with readouts fitted to the full layers on the same inputs, the plan that says so, and remarks."""
    from aireprune.calibration.readouts import fitted_readout
    from aireprune.calibration.response import response

    reduced = Replaced(source.arrays, {name: edit(source.arrays[name]) for name, edit in surgery.edits.items()})
    layers = find_layers(reduced, source.config, plan.units, source.name)
    after = Found(source.name, reduced, source.config, layers)
    fitted: dict[str, np.ndarray] = {}
    for full, layer in zip(source.layers, after.layers, strict=True):
        inputs = given[full.name]
        wanted = response(full, source.arrays)
        tokens = inputs.values[..., 0].size
        fitted |= fitted_readout(layer, reduced, _stream(inputs, wanted), tokens)
    edits = {**surgery.edits, **{name: instead(values) for name, values in fitted.items()}}
    count = min(len(inputs) for inputs in given.values())
    remark = (
        "every layer was fitted by itself on the inputs it was given; a layer does not make up for what earlier ones lost, "
        "as it does with inputs of the whole model."
    )
    return replace(surgery, edits=edits), replace(plan, certificate=None, calibrated=count), (remark,)


def _stream(inputs: ArrayInputs, wanted: Callable[[Tensor], Tensor]) -> Iterator[tuple[Tensor, Tensor, bool]]:
    from aireprune.calibration.inputs import held_out

    for number in range(inputs.batches):
        u = inputs[number].first
        yield u, wanted(u), held_out(number)
