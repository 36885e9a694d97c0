"""The walk from a model or checkpoint to a file for another engine: built, written, run, and kept if it agrees."""

from __future__ import annotations

from pathlib import Path

from aireprune.exports.about import about, states_of
from aireprune.exports.outcome import Exported, Judged
from aireprune.exports.request import ExportRequest
from aireprune.extras import extra
from aireprune.files.writing.atomic import atomic_paths, refuse_existing
from aireprune.pruning.settling import settled_by_task
from aireprune.pruning.source import FileSource, ModuleSource
from aireprune.tasks import load_task
from aireprune.tasks.base import Task

LIBRARIES: dict[str, tuple[str, ...]] = {"onnx": ("onnx", "onnxruntime"), "gguf": ("gguf",), "torch": ()}


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
    with atomic_paths([target], overwrite) as (temporary,):
        difference, checked, judged = _write(source, temporary, request, loaded)
        size = temporary.stat().st_size
    return Exported(
        target=target,
        to=request.to,
        bytes=size,
        states=states_of(source),
        difference=difference,
        checked=checked,
        judged=judged,
        notices=source.notices,
    )


def _write(
    source: FileSource | ModuleSource, path: Path, request: ExportRequest, task: Task | None
) -> tuple[float | None, str, Judged | None]:
    model = source.module if isinstance(source, ModuleSource) else source.build()
    from aireprune.exports.onnx.write import write_onnx

    difference, judged = write_onnx(model, path, request, about(source), task)
    on = "random inputs" if task is None else f"random inputs and examples of {task.name}"
    return difference, f"in onnxruntime its outputs are the model's to {difference:.0e} on {on}", judged


def require_libraries(to: str) -> None:
    """Raise, with the extra's name, where a library is missing."""
    for library in LIBRARIES[to]:
        extra(library, f"Export to {to.upper()}", to)
