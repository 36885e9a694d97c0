"""Whether a job suits the engine that its result is made for, and what its rounding did: see `aireprune.pruning.targets`.

Whatever can be refused is refused before anything is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from aireprune.errors import AireError
from aireprune.families import Layer
from aireprune.families.mamba2 import is_projected
from aireprune.method.selection import Budget
from aireprune.pruning.targets import FLAX, MAMBA_SSM, OWN, TORCH, TRANSFORMERS, Sizes, Target, find_target

if TYPE_CHECKING:
    from aireprune.pruning.plan import Plan
    from aireprune.pruning.request import Job, Request
    from aireprune.pruning.source import Source


def check_choices(request: Request) -> None:
    """Raise for choices that no model could be made for the request's target with."""
    if request.target is None:
        return
    target = find_target(request.target)
    made = f"target={target.name!r}"
    if target.one_size and request.layout == "adaptive":
        raise AireError(
            f"{made} needs one state size for all layers, and layout='adaptive' gives each its own: use layout='uniform' or "
            "'padded', or leave it out."
        )
    if target.one_size and request.allocate == "measured":
        raise AireError(f"{made} needs one state size for all layers, and allocate='measured' decides on one for each.")
    if request.reduce == "projected" and target.name != "onnx":
        raise AireError(
            f"reduce='projected' adds two tensors to every layer, which {target.name} has no place for: use "
            "reduce='fitted', or leave it out."
        )
    if request.round_to > 1 and any(sizes.rounds for sizes in target.families.values()):
        raise AireError(f"{made} decides how sizes are rounded: leave out round_to=.")


def check_target(source: Source, job: Job) -> None:
    """Raise if the target of a job does not load what comes of the source."""
    request = job.request
    if request is None or request.target is None:
        return
    target = find_target(request.target)
    if job.mask:
        raise AireError(f"A mask leaves every size as it is: target={target.name!r} has nothing to do, leave it out.")
    _check_families(target, source)
    _check_format(target, source)
    if any(map(is_projected, source.layers)) and target.name != "onnx":
        raise AireError(
            f"{source.name} has projected layers, whose two further tensors {target.name} has no place for: prune the "
            "model it was made from, with reduce='fitted'."
        )
    for layer in source.layers:
        _check_reachable(target, layer, request)


def _check_families(target: Target, source: Source) -> None:
    for layer in source.layers:
        if layer.family not in target.families:
            raise AireError(
                f"{source.name} has {layer.family} layers ({layer.name}), and {target.name} has "
                f"{' and '.join(target.families)} alone."
            )


def _check_format(target: Target, source: Source) -> None:
    found = format_of(source)
    if found is None:
        return
    if found not in target.reads:
        convert = " Our own Mamba language models become one with aire convert." if found == OWN else ""
        raise AireError(
            f"{source.name} is {found}, and what is pruned stays of that kind; for {target.name} it has to be "
            f"{' or '.join(target.reads)}.{convert}"
        )
    kind = source.config.get("model_type")
    if found == TRANSFORMERS and target.model_types and kind not in target.model_types:
        raise AireError(
            f"{source.name} is a model of type {kind}; for {target.name} files are made of "
            f"{' and '.join(target.model_types)}."
        )
    if target.name in ("official-s5", "s5-pytorch"):
        theirs = "Lambda" if target.name == "s5-pytorch" else "Lambda_re"
        other = next((layer.name for layer in source.layers if theirs not in layer.arrays), None)
        if other is not None:
            raise AireError(f"{source.name}: layer {other} has no tensor {theirs}, which {target.name} needs.")


def format_of(source: Source) -> str | None:
    """What kind of checkpoint a source is, in the words of `TARGETS`; None if it is no file."""
    if source.kind == "huggingface":
        return TRANSFORMERS if "model_type" in source.config else MAMBA_SSM
    kinds = {"aire": OWN, "flax": FLAX, "orbax": FLAX, "npz": "a NumPy file", "torch": TORCH, "safetensors": TORCH}
    return kinds.get(source.kind)


def check_output(job: Job, own: bool) -> None:
    """Raise if the output, in our own format, is nothing for the target."""
    name = None if job.request is None else job.request.target
    if own and name is not None and OWN not in find_target(name).reads:
        raise AireError(
            f"The output would be in our own format, which {name} does not read: give it the suffix of the source, so that "
            "it is of the same kind."
        )


def _check_reachable(target: Target, layer: Layer[Any], request: Request) -> None:
    """Raise if the budget is known to leave a size that the target does not take."""
    sizes, full, budget = target.families[layer.family], layer.states // layer.groups, request.budget
    if sizes.takes_all:
        return
    if not any(sizes.runs(size) for size in range(1, full + 1)):
        raise AireError(f"Layer {layer.name} has {full} states, and {target.name} takes {sizes.words}.")
    if budget.ratio and request.layout != "adaptive":
        count = max(budget.keep_of(full), min(budget.min_states, full), 1)
        _require(target, layer.name, sizes, _rounded(sizes, count, full), full)


def _rounded(sizes: Sizes, count: int, full: int) -> int:
    return next((size for size in sizes.steps(full) if size >= count), full if sizes.rounds else count)


def _require(target: Target, name: str, sizes: Sizes, size: int, full: int) -> None:
    if not sizes.runs(size):
        largest = max(size for size in range(1, full + 1) if sizes.runs(size))
        enough = ceil(100 * (1 - largest / full)) / 100
        raise AireError(
            f"Layer {name} would keep {size} of {full} states, and {target.name} takes {sizes.words}: a ratio of "
            f"{enough:g} or more is needed, which leaves {largest} at most."
        )


def allowed_sizes(name: str | None, layers: Sequence[Layer[Any]]) -> tuple[int, ...]:
    """The sizes that counts are rounded up to for a target, ascending; none if nothing is rounded."""
    if name is None:
        return ()
    rules = {find_target(name).families[layer.family] for layer in layers}
    if len(rules) > 1 and any(sizes.rounds for sizes in rules):
        raise AireError(f"Layers of several families are rounded otherwise for {name}, which one plan cannot do.")
    return rules.pop().steps(max(layer.states // layer.groups for layer in layers)) if rules else ()


def check_plan(plan: Plan, layers: Sequence[Layer[Any]]) -> None:
    """Raise if a plan keeps a size that its target does not take."""
    if plan.target is None:
        return
    target = find_target(plan.target)
    for layer, planned in zip(layers, plan.layers, strict=True):
        sizes = target.families[layer.family]
        if not sizes.takes_all:
            _require(target, layer.name, sizes, len(planned.kept) // layer.groups, layer.states // layer.groups)


def remarks(plan: Plan, layers: Sequence[Layer[Any]]) -> tuple[str, ...]:
    """What a user should know of a plan for these layers that was made for a target."""
    if plan.target is None:
        return ()
    target, family = find_target(plan.target), layers[0].family
    found = [*_rounding(target, target.families[family], plan, sum(layer.groups for layer in layers))]
    kept = max(len(mine.kept) // layer.groups for mine, layer in zip(plan.layers, layers, strict=True))
    needed, where = target.on_gpu.get(family, ((), ""))
    if needed and kept not in needed:
        listed = f"multiples of {needed[0]}" if len(needed) > 2 else " or ".join(map(str, needed))
        found.append(f"layers have {kept} states; {target.name} needs {listed} {where}.")
    return tuple(found)


def _rounding(target: Target, sizes: Sizes, plan: Plan, groups: int) -> Iterator[str]:
    """What rounding did to the ratio. groups: of all layers together."""
    if not sizes.rounds or plan.ratio is None:
        return
    asked = Budget(plan.ratio).keep_of(plan.states)
    if plan.kept > max(asked, plan.min_states * groups):
        why = "takes no others" if sizes.strict else "is no faster in between"
        yield (
            f"sizes were rounded up to {sizes.words}, because {target.name} {why}: {100 * plan.achieved_ratio:.1f} % of the "
            f"states went where {100 * plan.ratio:.1f} % were asked for."
        )
