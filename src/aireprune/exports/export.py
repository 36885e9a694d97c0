"""The walk from a model or checkpoint to a file for another engine: built, written, run, and kept if it agrees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import nn

from aireprune.exports.about import about, states_of
from aireprune.exports.outcome import Exported, require_agreement
from aireprune.exports.request import ExportRequest
from aireprune.exports.trials import Trial, answers, reference, relative
from aireprune.extras import extra, is_installed
from aireprune.files.writing.atomic import atomic_paths, refuse_existing
from aireprune.pruning.settling import settled_by_task
from aireprune.pruning.source import FileSource, ModuleSource
from aireprune.tasks import load_task
from aireprune.tasks.base import Task

LIBRARIES: dict[str, tuple[str, ...]] = {"onnx": ("onnx", "onnxruntime"), "gguf": ("gguf",), "torch": ()}
LLAMA_TOKENS = 64  # that llama.cpp and the model are compared after


def export_source(
    source: FileSource | ModuleSource,
    target: Path,
    request: ExportRequest,
    task: Task | str | None = None,
    overwrite: bool = False,
) -> Exported:
    """Write the file; it appears once it was found to agree with the model, or not at all."""
    refuse_existing(target, overwrite)
    require_libraries(request.to)
    loaded = load_task(task) if isinstance(task, str) else task
    if loaded is not None and isinstance(source, FileSource):
        source = settled_by_task(source, lambda model: loaded)
    blank = Exported(target=target, to=request.to, states=states_of(source), notices=source.notices)
    with atomic_paths([target], overwrite) as (temporary,):
        if request.to == "gguf":
            done = _gguf(source, temporary, request, blank)
        elif request.to == "onnx":
            done = _onnx(source, temporary, request, loaded, blank)
        else:
            done = _torch(source, temporary, request, loaded, blank)
        size = temporary.stat().st_size
    return replace(done, bytes=size)


def require_libraries(to: str) -> None:
    """Raise, with the extra's name, where a library is missing."""
    for library in LIBRARIES[to]:
        extra(library, f"Export to {to.upper()}", to)


def _model(source: FileSource | ModuleSource) -> nn.Module:
    return source.module if isinstance(source, ModuleSource) else source.build()


def _inputs(task: Task | None) -> str:
    return "random inputs" if task is None else f"random inputs and examples of {task.name}"


def _onnx(
    source: FileSource | ModuleSource, path: Path, request: ExportRequest, task: Task | None, blank: Exported
) -> Exported:
    from aireprune.exports.onnx.write import write_onnx

    difference, judged = write_onnx(_model(source), path, request, about(source), task)
    checked = f"in onnxruntime its outputs are the model's to {difference:.0e} on {_inputs(task)}"
    eight = ", before projections were put into 8 bits" if request.int8 else ""
    return replace(blank, difference=difference, checked=checked + eight, judged=judged)


def _gguf(source: FileSource | ModuleSource, path: Path, request: ExportRequest, blank: Exported) -> Exported:
    from aireprune.exports.gguf.write import write_gguf

    notices, rounding = write_gguf(source, path, request.weights, about(source))
    noted = replace(blank, notices=(*blank.notices, *notices))
    if not is_installed("llama_cpp"):
        checked = (
            f"its tensors, read back, are the model's to {rounding:.0e}; llama-cpp-python, to run it, is not installed"
        )
        return replace(noted, checked=checked)
    difference = _beside_llama_cpp(_model(source), path)
    if request.weights == "f32":
        require_agreement(difference, "llama.cpp")
    return replace(noted, difference=difference, checked=f"in llama.cpp its logits are the model's to {difference:.0e}")


def _beside_llama_cpp(model: nn.Module, path: Path) -> float:
    """The relative difference of logits after random tokens."""
    from aireprune.exports.gguf.running import last_logits

    vocabulary = int(model.get_input_embeddings().weight.shape[0])  # type: ignore[operator]
    tokens = np.random.default_rng(0).integers(0, vocabulary, LLAMA_TOKENS)
    with reference(model) as single:
        wanted = answers(single, Trial(x=tokens[None]))[0, -1]
    return relative(last_logits(path, tokens, vocabulary), wanted)


def _torch(
    source: FileSource | ModuleSource, path: Path, request: ExportRequest, task: Task | None, blank: Exported
) -> Exported:
    from aireprune.exports.torch.write import write_program

    difference = write_program(_model(source), path, request, about(source), task)
    checked = f"loaded again, its outputs are the model's to {difference:.0e} on {_inputs(task)}"
    return replace(blank, difference=difference, checked=checked)
