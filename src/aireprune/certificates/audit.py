"""A pruned model held against its original: what each layer has become, read from the stored numbers.

The error system is full minus stored. Where the kept modes are the old ones (truncate, refit, a calibrated readout) it
has the modes of the full layer with the change of readout; where they are new (balanced) it holds both systems. A
change of the D u path, which calibration makes, counts as modes at lambda = 0.

[balanced] with R the balanced truncation that the plan asks for, and S what is stored (rounded, perhaps calibrated):
|G - S| <= |G - R| + |R - S|, the first by Hankel singular values, the second computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aireprune.errors import AireError
from aireprune.families import Found, lti_family
from aireprune.families.s4 import diagonal_error
from aireprune.files.single import beside
from aireprune.method.bounds import LayerCertificate, balanced_bound, certify
from aireprune.method.gramians import energy
from aireprune.method.hinf import hinf_norms
from aireprune.method.reductions import Reduction, balanced
from aireprune.method.reductions.diagonal import SMALLEST
from aireprune.method.system import ModalSystem, concatenate, difference
from aireprune.method.threads import single_threaded
from aireprune.pruning.layers import marks
from aireprune.pruning.plan import Plan
from aireprune.pruning.settling import as_settled, settled_by_batches
from aireprune.pruning.source import ConfigLike, FileSource, ModuleSource, open_module, open_source
from aireprune.zoo import locate, shown

if TYPE_CHECKING:
    from torch import Tensor, nn

    from aireprune.calibration.inputs import Inputs, InputSource
    from aireprune.certificates.end_to_end import EndToEnd

    ModelOrPath = nn.Module | str | Path

SEARCHED = 1 + 1e-6  # a searched norm is exact to about 1e-9
SLACK = 1e-6  # relative, for comparing bounds with a searched norm
MADE_DIAGONAL = "S4 was made diagonal on opening with a relative H2 error of"
EXAMPLES = 256  # sequences that the models are compared on


@dataclass(frozen=True)
class Certificate:
    """What is proved about a pruned model, and what was measured."""

    plan: Plan
    layers: tuple[LayerCertificate, ...]
    end_to_end: EndToEnd | None  # with data

    @property
    def violations(self) -> list[str]:
        """Bounds that are below the truth. There are none, unless something is wrong."""
        found = [f"{layer.name}: {bound} bound" for layer in self.layers for bound in violated(layer)]
        whole = self.end_to_end
        if whole is not None and whole.bound is not None and whole.bound < whole.distortion * (1 - 1e-3):
            found.append("the whole model: end-to-end bound")
        return found

    def to_dict(self) -> dict[str, Any]:
        return {
            "reduce": self.plan.reduce,
            "horizon": self.plan.horizon,
            "layers": [layer.to_dict() for layer in self.layers],
            "end_to_end": None if self.end_to_end is None else self.end_to_end.to_dict(),
            "violations": self.violations,
        }


def certify_model(
    pruned: ModelOrPath,
    original: ModelOrPath | None = None,
    *,
    plan: Plan | None = None,
    data: InputSource | None = None,
    examples: int = EXAMPLES,
    config: ConfigLike = None,
) -> Certificate:
    """Certificates of a pruned model or checkpoint, against the original it came from.

    original: by default the checkpoint that the plan names. plan: by default the one that was saved with the pruned
    model. data: inputs (a task's test split, a .npy or .npz file, an array) on which the outputs are compared, for our
    S5, LRU and S4D models; at most `examples` of them. config: that of the original.
    """
    plan = plan or _plan_of(pruned)
    original = original or _named_source(plan)
    before = open_source(original, config, plan.units)
    after = open_source(pruned, None, replace(plan.units, even=False))
    layers = tuple(certify_layers(before, after, plan))
    if data is None:
        return Certificate(plan, layers, None)
    from aireprune.certificates.end_to_end import end_to_end

    if isinstance(before, FileSource):
        before = settled_by_batches(before, read_examples(data, examples))
        after = as_settled(after, before.settled) if isinstance(after, FileSource) else after
    return Certificate(plan, layers, end_to_end(_built(before), _built(after), layers, read_examples(data, examples)))


def read_examples(data: InputSource, count: int = EXAMPLES) -> Iterable[Tensor]:
    """At most `count` inputs in batches: of a task, its test split."""
    from aireprune.calibration.inputs import ArrayInputs, read_inputs
    from aireprune.tasks import TASKS, load_task

    if isinstance(data, str) and data in TASKS:
        task = load_task(data)
        inputs: Inputs = ArrayInputs(task.inputs(task.test.x[:count]))
    else:
        inputs = read_inputs(data, count)
    return (inputs[number].first for number in range(inputs.batches))


def _plan_of(pruned: ModelOrPath) -> Plan:
    if not isinstance(pruned, str | Path):
        found = getattr(pruned, "plan", None)
        if not isinstance(found, Plan):
            raise AireError(f"This {type(pruned).__name__} was not pruned by aireprune: it has no plan.")
        return found
    path = locate(pruned)
    where = path / "plan.json" if path.is_dir() else beside(path, "plan.json")
    if path.exists() and not where.exists():
        raise AireError(
            f"{shown(path)} has no plan ({where.name}), so it is not known to be pruned; give a pruned checkpoint."
        )
    return Plan.load(where)


def _named_source(plan: Plan) -> Path:
    if plan.source is None or not Path(plan.source).exists():
        where = "names no original" if plan.source is None else f"names {plan.source}, which is not there"
        raise AireError(f"The plan {where}. Give the original checkpoint with original=.")
    return Path(plan.source)


def _built(source: FileSource | ModuleSource) -> ModuleSource:
    """The source as a model in memory."""
    return source if isinstance(source, ModuleSource) else open_module(source.build())


@single_threaded
def certify_layers(original: Found, pruned: Found, plan: Plan, hinf: bool = True) -> list[LayerCertificate]:
    """The certificate of every layer of `pruned`, which came from `original` by `plan`."""
    plan.check(original)
    families = [layer.family for layer in original.layers]
    if families != [layer.family for layer in pruned.layers]:
        raise AireError(
            f"{pruned.name} has {len(pruned.layers)} layers, {original.name} has {len(original.layers)}: they do not "
            "belong together."
        )
    return [_certify(original, pruned, plan, number, hinf) for number in range(len(plan.layers))]


def violated(found: LayerCertificate) -> list[str]:
    """The bounds that are below the true norm. There are none, unless something is wrong."""
    if found.hinf is None:
        return []
    least = found.hinf * (1 - SLACK) - SLACK * found.layer_energy**0.5
    bounds = {"AIRE": found.aire_bound, "LAST": found.last_bound, "balanced": found.balanced_bound}
    return [name for name, bound in bounds.items() if bound is not None and bound < least]


def error_system(full: ModalSystem, small: ModalSystem, kept: np.ndarray | None) -> ModalSystem:
    """full - small. kept (*batch, n): the modes of `full` that `small` holds in this order, or None."""
    readout = None if kept is None else _in_place(full, small, kept)
    return difference(full, small) if readout is None else full.with_c(full.c - readout)


def feedthrough(found: Found, number: int) -> np.ndarray | None:
    """D of a layer, (h,) also where it is stored as that of one readout (1, h); None if it has none."""
    name = found.layers[number].feedthrough
    if name is None:
        return None
    d = np.asarray(found.arrays[name], dtype=np.float64)
    return d[0] if d.ndim == 2 and len(d) == 1 else d


def with_feedthrough(system: ModalSystem, d: np.ndarray) -> ModalSystem:
    """The system and y = D u, as modes at lambda = 0: one per channel of a batch, else one per input."""
    batch, size = system.batch, system.inputs if not system.batch else 1
    if d.shape != (batch or (system.inputs,)) or (not batch and system.outputs != system.inputs):
        raise AireError(f"D has shape {d.shape}, which does not fit a layer of {system.inputs} inputs.")
    c = np.zeros((*batch, system.directions, system.outputs, size))
    c[..., 0, :, :] = (np.diag(d) if not batch else d.reshape(*batch, 1, 1)) / system.share
    b = np.broadcast_to(np.eye(size, system.inputs), (*batch, size, system.inputs))
    poles = np.full((*batch, size), np.log(SMALLEST))
    return concatenate([system, ModalSystem(poles, np.zeros_like(poles), b, c, system.conj)])


def _certify(original: Found, pruned: Found, plan: Plan, number: int, hinf: bool) -> LayerCertificate:
    layer, planned = original.layers[number], plan.layers[number]
    family = lti_family(layer, "a certificate")
    full = family.system(layer, original.arrays)
    small = family.system(pruned.layers[number], pruned.arrays)
    if full.batch != small.batch or (full.inputs, full.outputs) != (small.inputs, small.outputs):
        raise AireError(f"Layer {layer.name} has another number of channels in {pruned.name}.")
    kept = marks(layer, family, planned)
    change = _change_of_d(original, pruned, number)

    def changed(system: ModalSystem) -> ModalSystem:
        return system if change is None else with_feedthrough(system, change)

    renewed = plan.reduce == "balanced" and not kept.all()
    error = changed(error_system(full, small, None if renewed else kept))
    tail = None
    if renewed and plan.horizon is None and hinf:
        promised = balanced(full, kept.sum(-1))
        rest = changed(difference(promised.system, small))
        assert promised.tail is not None
        tail = promised.tail + hinf_norms(rest)[0] * SEARCHED / balanced_bound(error, 1.0)
    found = certify(
        planned.name,
        Reduction(
            method=plan.reduce,
            system=small,
            error=error,
            order=small.audible().sum(-1),
            kept=None,
            energy=energy(full, plan.horizon),
            error_energy=energy(error, plan.horizon),
            tail=tail,
        ),
        hinf,
        plan.horizon,
    )
    made_diagonal = diagonal_error(original.arrays, layer.name)
    notes = () if made_diagonal is None else (f"{MADE_DIAGONAL} {made_diagonal:.1e}, which comes on top",)
    return replace(found, modes=int(kept.size), notes=(*found.notes, *notes))


def _change_of_d(original: Found, pruned: Found, number: int) -> np.ndarray | None:
    """D of the original minus D of the pruned layer; None if they agree or there is none."""
    before, after = feedthrough(original, number), feedthrough(pruned, number)
    if before is None or after is None or before.shape != after.shape or np.array_equal(before, after):
        return None
    return np.asarray(before - after)


def _in_place(full: ModalSystem, small: ModalSystem, kept: np.ndarray) -> np.ndarray | None:
    """The readout of `small` on the modes of `full`, zero elsewhere; None if the kept modes are not the old ones."""
    if small.modes > full.modes:
        return None
    same_places = np.broadcast_to(np.arange(small.modes), (*full.batch, small.modes))  # masked, or nothing was removed
    moved_up = np.argsort(~kept, axis=-1, kind="stable")[..., : small.modes]
    audible = small.audible()
    for index in (moved_up, same_places):
        agrees = (
            np.take_along_axis(kept, index, -1)
            & (np.take_along_axis(full.log_radius, index, -1) == small.log_radius)
            & (np.take_along_axis(full.angle, index, -1) == small.angle)
            & (np.take_along_axis(full.b, index[..., None], -2) == small.b).all(-1)
        )
        if (agrees | ~audible).all():
            values = np.where(audible[..., None, None, :], small.c, 0)
            readout = np.zeros_like(full.c)
            np.put_along_axis(readout, np.broadcast_to(index[..., None, None, :], values.shape), values, -1)
            return readout
    return None
