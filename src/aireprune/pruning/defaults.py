"""What is done where nothing is said: the reduction and the method that do least harm, the layout that stock code loads.

The one place that chooses. Whatever a request names stays as it is; `AUTO` is replaced by names once the model is known.

    reduce    balanced wherever every layer is linear and time-invariant, with or without calibration inputs; truncate
              for selective layers, for masks, for thresholds (which are scores of states as they are) and for methods
              other than aire
    method    aire
    layout    uniform, one size for all layers, which stock code loads with one number changed; adaptive for our own
              models and format, for masks, for layers of different sizes, with epsilon, which lets layers go, and
              where a measurement decides how many states each layer keeps

docs/results.md has the measurements behind the first two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from aireprune.errors import AireError
from aireprune.families import FAMILIES, Layer, LTIFamily, find_layers
from aireprune.pruning.request import AUTO, Job, Request
from aireprune.pruning.source import ModuleSource, Source

AnySource = TypeVar("AnySource", bound=Source)
TRUNCATED = "states are removed as they are (reduce='truncate')"


def settle(source: AnySource, job: Job, own: bool) -> tuple[AnySource, Job]:
    """The source and the job with every open choice made. own: one of our models, or our own format, comes out.

    What kept the better reduction from being chosen is among the notices of the source.
    """
    if job.request is None or not job.request.is_open:
        return source, job
    request = job.request
    if request.layout == AUTO:
        request = replace(request, layout=_layout(source, job, own))
        if request.units != job.units:
            source = replace(source, layers=find_layers(source.arrays, source.config, request.units, source.name))
    method = "aire" if request.method == AUTO else request.method
    if request.reduce != AUTO:
        return source, replace(job, request=replace(request, method=method))
    if job.mask or method != "aire" or request.budget.threshold is not None or _all_selective(source):
        return source, replace(job, request=replace(request, method=method, reduce="truncate"))
    obstacle = _obstacle(source, request)
    if obstacle is None:
        return source, replace(job, request=replace(request, method=method, reduce="balanced", fallback=True))
    source = replace(source, notices=(*source.notices, f"{obstacle}, so {TRUNCATED}."))
    return source, replace(job, request=replace(request, method=method, reduce="truncate"))


def truncated(job: Job) -> Job:
    """The job with states removed as they are."""
    assert job.request is not None
    return replace(job, request=replace(job.request, reduce="truncate", fallback=False))


def _layout(source: Source, job: Job, own: bool) -> str:
    assert job.request is not None
    sizes = {layer.states // (layer.groups * layer.rows) for layer in source.layers}
    measured = job.request.allocate == "measured"
    return "adaptive" if own or job.mask or job.request.epsilon or measured or len(sizes) > 1 else "uniform"


def _is_selective(layer: Layer[Any]) -> bool:
    return not isinstance(FAMILIES[layer.family], LTIFamily)


def _all_selective(source: Source) -> bool:
    return all(map(_is_selective, source.layers))


def _obstacle(source: Source, request: Request) -> str | None:
    """Why layers cannot be balanced, if that is known beforehand."""
    selective = [layer.name for layer in source.layers if _is_selective(layer)]
    if selective:
        return f"one plan has one reduction, and {len(selective)} of {len(source.layers)} layers are selective"
    declared = next((layer for layer in source.layers if layer.declared), None)
    if declared is not None:
        return f"layer {declared.name} has tensors along its states that no family knows"
    if request.unstable == "keep" and any(states.unstable.any() for states in source.states()):
        return "unstable poles have no Gramians"
    return _nonlinear(source)


def _nonlinear(source: Source) -> str | None:
    if not isinstance(source, ModuleSource):
        return None
    from aireprune.models.editing import check_editable

    try:
        check_editable(source.module, source.layers, linear=True)
    except AireError:
        return "a layer is not linear in its input (degree or liquid)"
    return None
