"""What is done where nothing is said: the reduction and the method that do least harm, the layout that stock code loads.

The one place that chooses. Whatever a request names stays as it is; `AUTO` is replaced by names once the model is known.

    reduce    balanced wherever every layer is linear and time-invariant, with or without calibration inputs; with such
              inputs, fitted for Mamba-2, or projected where it is already; truncate for other selective layers, for
              masks, for thresholds (which are scores of states as they are) and for methods other than aire
    method    aire; damage-calibrated for selective layers that are truncated, with calibration inputs
    horizon   none, except where states are balanced (`aireprune.pruning.horizon`): with calibration inputs, if some remember
              more steps than these have, what is closer to the full model on held-out inputs, none or their length; without
              inputs, if some remember more than any input has, ten times what the median state remembers
    layout    uniform, one size for all layers, which stock code loads with one number changed and which does selective
              models less harm; adaptive for our own linear models in our own format, for masks, for layers of different
              sizes, with epsilon, which lets layers go, and where a measurement decides how many states each layer
              keeps; for a target with one size for all, uniform, or padded where layers have or get several

The measurements behind this are in docs/results.md and docs/reductions.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from aireprune.errors import AireError
from aireprune.families import FAMILIES, Layer, LTIFamily, find_layers
from aireprune.families.mamba2 import is_projected
from aireprune.pruning.fitting import check_target
from aireprune.pruning.horizon import without_inputs
from aireprune.pruning.request import AUTO, Job, Request
from aireprune.pruning.source import ModuleSource, Source
from aireprune.pruning.targets import find_target

AnySource = TypeVar("AnySource", bound=Source)
MEASURED = "damage-calibrated"
TRUNCATED = "states are removed as they are (reduce='truncate')"


def settle(source: AnySource, job: Job, own: bool) -> tuple[AnySource, Job]:
    """The source and the job with every open choice made. own: one of our models, or our own format, comes out.

    What kept the better reduction from being chosen is among the notices of the source.
    """
    check_target(source, job)
    if job.request is None or not job.request.is_open:
        return source, job
    request = job.request
    if request.layout == AUTO:
        request = replace(request, layout=_layout(source, job, own))
        if request.units != job.units:
            source = replace(source, layers=find_layers(source.arrays, source.config, request.units, source.name))
    if request.method == AUTO:
        measured = request.reduce in (AUTO, "truncate") and _can_be_scored_on_data(source, job)
        if measured and request.reduce == AUTO:
            request = replace(request, reduce=_reduction_on_data(source))
        scored = measured and request.reduce == "truncate"
        request = replace(request, method=MEASURED if scored else "aire", fallback=measured)
    if request.reduce != AUTO:
        return source, replace(job, request=request)
    if job.mask or request.method != "aire" or request.budget.threshold is not None or _all_selective(source):
        return source, replace(job, request=replace(request, reduce="truncate"))
    obstacle = _obstacle(source, request)
    if obstacle is None:
        if job.calibration is None or job.calibration.source is None:
            request, note = without_inputs(source, request)
            source = replace(source, notices=(*source.notices, *filter(None, [note])))
        return source, replace(job, request=replace(request, reduce="balanced", fallback=True))
    source = replace(source, notices=(*source.notices, f"{obstacle}, so {TRUNCATED}."))
    return source, replace(job, request=replace(request, reduce="truncate"))


def plainly(job: Job) -> Job:
    """The job with states ranked by aire and removed as they are."""
    assert job.request is not None
    return replace(job, request=replace(job.request, method="aire", reduce="truncate", fallback=False))


def _can_be_scored_on_data(source: Source, job: Job) -> bool:
    """Selective layers with inputs of the model; thresholds and horizons belong to scores without data."""
    asked, calibration = job.request, job.calibration
    if asked is None or asked.budget.threshold is not None or asked.horizon is not None:
        return False
    inputs = calibration is not None and calibration.source is not None and not job.mask
    return inputs and _all_selective(source)


def _reduction_on_data(source: Source) -> str:
    """Of selective layers. Mamba-2 keeps the layout it has: that of stock code, or a projected one."""
    if any(layer.family != "mamba2" or layer.declared for layer in source.layers):
        return "truncate"
    return "projected" if any(map(is_projected, source.layers)) else "fitted"


def _layout(source: Source, job: Job, own: bool) -> str:
    assert job.request is not None
    sizes = {layer.states // (layer.groups * layer.rows) for layer in source.layers}
    if job.request.target is not None and find_target(job.request.target).one_size:
        return "padded" if job.request.epsilon or len(sizes) > 1 else "uniform"
    free = (own and not _all_selective(source)) or job.request.allocate == "measured"
    return "adaptive" if free or job.mask or job.request.epsilon or len(sizes) > 1 else "uniform"


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
