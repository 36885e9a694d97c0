"""The public functions. Each takes a model in memory or a path to a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aireprune.errors import AireError
from aireprune.families import FAMILIES, find_layers
from aireprune.families.base import Layer, NamedArrays
from aireprune.files import open_checkpoint
from aireprune.files.base import Checkpoint
from aireprune.registry import METHODS, Method
from aireprune.planning import Plan, fingerprint, make_plan
from aireprune.selection import Budget
from aireprune.states import LayerStates
from aireprune.surgery import edits

if TYPE_CHECKING:
    from torch import nn

    ModelOrPath = nn.Module | str | Path

FORMAT = "aireprune"


def methods() -> dict[str, Method]:
    """Every pruning method by name: its criterion, normalisation and scope."""
    return dict(METHODS)


def load(path: str | Path, config: Mapping[str, Any] | str | Path | None = None) -> nn.Module:
    """The model of a checkpoint, in evaluation mode, with its weights as they are on disk.

    `config` (a mapping or a JSON file) supplies what a Flax or bare weight file does not say; by default it is looked
    for in NAME.json beside the file.
    """
    from aireprune.nn.build import build_model

    return build_model(open_checkpoint(path, config))


def save(model: nn.Module, path: str | Path, overwrite: bool = False) -> None:
    """Write one of our models as a folder: config.json, model.safetensors and, if it was pruned, plan.json."""
    from aireprune.files import write_folder
    from aireprune.nn.arrays import ModuleArrays, is_own, own_config

    if not is_own(model):
        raise AireError(f"save writes our own models; a {type(model).__name__} is saved with its own library.")
    arrays = ModuleArrays(model)
    applied = getattr(model, "plan", None)
    extras = {} if applied is None else {"plan.json": applied.to_json()}
    tensors = {name: arrays[name] for name in arrays.shapes}
    write_folder(Path(path), tensors, {"format": FORMAT, **own_config(model)}, extras, overwrite)


def plan(
    model_or_path: ModelOrPath,
    method: str = "aire",
    ratio: float | None = None,
    *,
    threshold: float | None = None,
    min_states: int = 1,
    epsilon: float = 0.0,
    horizon: int | None = None,
    seed: int = 0,
    unstable: str = "refuse",
    config: Mapping[str, Any] | str | Path | None = None,
) -> Plan:
    """Score every state and decide which stay.

    ratio: share of all states to remove (0 to 1); or threshold: the score below which states go.
    min_states: at least so many stay in every layer. epsilon: added to the prefix sums; with min_states=0 it lets whole
    layers go. horizon: count the energy of the first so many steps only. seed: for method 'random'.
    unstable: what to do about poles with |lambda| >= 1: 'refuse' (raise) or 'keep' (they always stay).
    """
    arrays, layers, states = open_states(model_or_path, config)
    budget = Budget(ratio, threshold, min_states)
    return make_plan(layers, states, fingerprint(layers, arrays), method, budget, epsilon, horizon, seed, unstable)


def prune(
    model_or_path: ModelOrPath,
    plan: Plan | None = None,
    *,
    ratio: float | None = None,
    threshold: float | None = None,
    method: str = "aire",
    mask: bool = False,
    config: Mapping[str, Any] | str | Path | None = None,
    **options: Any,
) -> nn.Module:
    """A new, smaller model; the one given stays as it is. Give a plan, or a ratio or threshold to make one with.

    mask: silence the states instead of taking them out (same shapes, same outputs as the removal).
    options: those of `plan` (min_states, epsilon, horizon, seed, unstable).
    """
    model = load(model_or_path, config) if isinstance(model_or_path, str | Path) else model_or_path
    if plan is None:
        plan = _plan(model, method, ratio, threshold=threshold, **options)
    elif ratio is not None or threshold is not None or options:
        raise AireError("The plan already says what to keep; give either a plan or a ratio, threshold and options.")
    arrays, layers = open_layers(model)
    plan.check(layers, arrays)
    return _prune_module(model, layers, plan, mask)


def _prune_module(model: nn.Module, layers: Sequence[Layer], plan: Plan, mask: bool) -> nn.Module:
    from aireprune.nn.arrays import edit_own, is_own

    if not is_own(model):
        raise AireError(f"A {type(model).__name__} cannot be pruned in memory.")
    pruned = edit_own(model, edits(layers, plan, mask), _sizes(layers, plan, mask))
    pruned.plan = plan  # type: ignore[assignment]  # what `save` writes beside the weights
    return pruned


def _sizes(layers: Sequence[Layer], plan: Plan, mask: bool) -> list[int]:
    return [layer.states if mask else len(planned.kept) for layer, planned in zip(layers, plan.layers, strict=True)]


_plan = plan  # `prune` has an argument of that name


def prune_file(
    source: str | Path | Checkpoint,
    target: str | Path,
    plan: Plan | None = None,
    *,
    ratio: float | None = None,
    threshold: float | None = None,
    method: str = "aire",
    mask: bool = False,
    overwrite: bool = False,
    config: Mapping[str, Any] | str | Path | None = None,
    **options: Any,
) -> Plan:
    """Prune a checkpoint on disk into a new one of the same kind, without building the model; returns the plan applied.

    A target without a suffix, for a source that is a single file, becomes a folder in our own format; that builds the
    model. `options` are those of `plan`.
    """
    checkpoint = open_checkpoint(source, config) if isinstance(source, str | Path) else source
    target = Path(target)
    layers = find_layers(checkpoint, checkpoint.config, str(checkpoint.path))
    if plan is None:
        states = [FAMILIES[layer.family].states(layer, checkpoint) for layer in layers]
        budget = Budget(ratio, threshold, options.pop("min_states", 1))
        plan = make_plan(layers, states, fingerprint(layers, checkpoint), method, budget, **options)
    else:
        plan.check(layers, checkpoint)
    if checkpoint.path.is_file() and not target.suffix:
        from aireprune.nn.build import build_model

        model = build_model(checkpoint)
        save(_prune_module(model, open_layers(model)[1], plan, mask), target, overwrite)
        return plan
    new_config = resized_config(checkpoint, layers, _sizes(layers, plan, mask))
    checkpoint.write(target, edits(layers, plan, mask), new_config, {"plan.json": plan.to_json()}, overwrite)
    return plan


def resized_config(checkpoint: Checkpoint, layers: Sequence[Layer], sizes: Sequence[int]) -> dict[str, Any] | None:
    """The checkpoint's configuration with the new state counts; None where it has no configuration."""
    if not checkpoint.config:
        return None
    return {**checkpoint.config, "states": list(sizes)}


def open_layers(
    model_or_path: ModelOrPath, config: Mapping[str, Any] | str | Path | None = None
) -> tuple[NamedArrays, list[Layer]]:
    """The named arrays of a model or checkpoint and the state space layers in them."""
    if isinstance(model_or_path, str | Path):
        checkpoint = open_checkpoint(model_or_path, config)
        return checkpoint, find_layers(checkpoint, checkpoint.config, str(model_or_path))
    from aireprune.nn.arrays import ModuleArrays, module_config

    arrays = ModuleArrays(model_or_path)
    return arrays, find_layers(arrays, module_config(model_or_path), type(model_or_path).__name__)


def open_states(
    model_or_path: ModelOrPath, config: Mapping[str, Any] | str | Path | None = None
) -> tuple[NamedArrays, list[Layer], list[LayerStates]]:
    """The same, with what is scored."""
    arrays, layers = open_layers(model_or_path, config)
    return arrays, layers, [FAMILIES[layer.family].states(layer, arrays) for layer in layers]
