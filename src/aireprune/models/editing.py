"""Pruning a foreign module in memory: transformers (Mamba, FalconMamba, Jamba, Mamba-2 mixers), mambapy, s5-pytorch.

The cuts are those of the checkpoint; what is added here is that the module stays consistent with its smaller tensors:
sizes that layers remember, the convolution's channel count, buffers along the state axis, and the configuration.
transformers' caches take their shape from the first state they are given, so layers of different sizes need nothing
more.

transformers describes layers that differ by `config.per_layer_config`, {layer number: {"state_size": 4}, …}; layers
of one size are described by the plain `config.state_size`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.families import FAMILIES, find_layers
from aireprune.families.base import Layer
from aireprune.files.base import Edit
from aireprune.files.sizes import STATE_SIZE_KEYS
from aireprune.models.arrays import ModuleArrays, edit_own, is_own, like, module_config, to_numpy
from aireprune.pruning.plan import Plan
from aireprune.pruning.surgery import edits, stored_sizes


def prune_module(
    model: nn.Module, layers: Sequence[Layer], plan: Plan, mask: bool = False, sizes: Sequence[int] | None = None
) -> nn.Module:
    """A pruned copy of a module; the one given stays as it is.

    mask: silence the states instead of taking them out. sizes: after the removal, pad every layer with silent states
    to so many (of each group).
    """
    for layer, planned in zip(layers, plan.layers, strict=True):
        check_groups(layer, planned.kept)
    stored = stored_sizes(layers, plan, mask) if sizes is None or mask else list(sizes)
    todo = edits(layers, plan, mask, sizes)
    if is_own(model):
        return edit_own(model, todo, stored)
    pruned = copy.deepcopy(model)
    for name, parameter in model.named_parameters():  # deepcopy drops marks such as _no_weight_decay
        pruned.get_parameter(name).__dict__.update(parameter.__dict__)
    _apply(pruned, layers, todo)
    if not mask:
        _settle(pruned, layers, todo, stored)
    return pruned


def resize_module(model: nn.Module, sizes: Sequence[int]) -> nn.Module:
    """Give every state space layer of a freshly built module this many states (of each group), in place.

    The weights then are those of the first states; they are meant to be overwritten by a checkpoint of these sizes.
    """
    layers = find_layers(ModuleArrays(model), foreign_config(model), type(model).__name__)
    if len(layers) != len(sizes):
        raise AireError(f"The model has {len(layers)} state space layers, but {len(sizes)} sizes are given.")
    todo: dict[str, Edit] = {}
    for layer, size in zip(layers, sizes, strict=True):
        per_group = layer.states // layer.groups
        if size > per_group:
            raise AireError(f"Layer {layer.name} has {per_group} states per group and cannot be given {size}.")
        kept = np.arange(layer.states).reshape(layer.groups, -1)[:, :size].ravel()
        if len(kept) < layer.states:
            todo |= {name: partial(cut.remove, kept=kept) for name, cut in FAMILIES[layer.family].cuts(layer).items()}
    _apply(model, layers, todo)
    _settle(model, layers, todo, sizes)
    return model


def foreign_config(model: nn.Module) -> dict[str, Any]:
    """What a module says about itself, as `Family.find` wants it; also for mambapy and s5-pytorch."""
    config = module_config(model)
    if config:
        return config
    for module in model.modules():
        own = getattr(module, "config", None)
        if own is not None and hasattr(own, "d_state"):  # mambapy
            return {"inner_layernorms": bool(getattr(own, "inner_layernorms", False))}
        if getattr(getattr(module, "discretize", None), "__name__", "") == "discretize_bilinear":  # s5-pytorch
            return {"discretization": "bilinear"}
    return {}


def check_groups(layer: Layer, kept: Sequence[int]) -> None:
    """Raise unless every group of the layer keeps equally many states."""
    counts = np.bincount(np.asarray(kept, int) // max(layer.states // layer.groups, 1), minlength=layer.groups)
    if len(set(counts.tolist())) > 1:
        raise AireError(
            f"Layer {layer.name} has {layer.groups} groups of states, of which equally many must stay; the plan keeps "
            f"{', '.join(map(str, counts))}."
        )


def _apply(model: nn.Module, layers: Sequence[Layer], todo: Mapping[str, Edit]) -> None:
    """Replace the tensors; dtype, device, requires_grad, marks and ties stay."""
    for layer in layers:
        if getattr(model.get_submodule(layer.name), "degree", 1) != 1:
            raise AireError(
                f"Layer {layer.name} raises its square B to a power; without some rows it is square no more."
            )
    done: dict[int, Tensor] = {}
    for name, edit in todo.items():
        path, _, leaf = name.rpartition(".")
        owner = model.get_submodule(path)
        old: Tensor = getattr(owner, leaf)
        if id(old) not in done:
            new = _edited(edit, old)
            if isinstance(old, nn.Parameter):
                new = nn.Parameter(new, requires_grad=old.requires_grad)
                new.__dict__.update(old.__dict__)
            done[id(old)] = new
        setattr(owner, leaf, done[id(old)])


def _edited(edit: Edit, old: Tensor) -> Tensor:
    """The edited tensor; of a tensor on the meta device, which has no values, only the shape is edited."""
    if old.is_meta:
        return old.new_empty(edit(np.zeros(tuple(old.shape), np.float32)).shape)
    return like(edit(to_numpy(old)), old)


def _settle(model: nn.Module, layers: Sequence[Layer], todo: Mapping[str, Edit], sizes: Sequence[int]) -> None:
    """Bring everything that remembers a size in line with the tensors. sizes: states of each layer, per group."""
    for layer, size in zip(layers, sizes, strict=True):
        mixer: Any = model.get_submodule(layer.name)
        for key in ("ssm_state_size", "d_state"):
            if hasattr(mixer, key):
                setattr(mixer, key, size)
        if hasattr(mixer, "conv_dim"):
            mixer.conv_dim = mixer.conv1d.weight.shape[0]
        if hasattr(mixer, "groups_time_state_size"):  # FalconH1
            mixer.groups_time_state_size = size * layer.groups
        rows = todo.get(layer.arrays.get("in_proj.weight", ""))
        if rows is not None and hasattr(mixer, "mup_vector"):  # FalconH1: one multiplier per row of in_proj
            vector = mixer.mup_vector
            mixer.mup_vector = like(rows(to_numpy(vector.reshape(-1))), vector).reshape(*vector.shape[:-1], -1)
        if hasattr(getattr(mixer, "config", None), "d_state"):  # mambapy: one configuration object for all layers
            mixer.config = copy.copy(mixer.config)
            mixer.config.d_state = size
        for name, child in mixer.named_children():
            _settle_child(name, child, size)
    settle_config(model, layers, sizes)


def _settle_child(name: str, child: Any, size: int) -> None:
    if isinstance(child, nn.Linear):
        child.out_features, child.in_features = child.weight.shape
    elif isinstance(child, nn.Conv1d):
        child.in_channels = child.out_channels = child.groups = child.weight.shape[0]
    elif name in ("b_layernorm", "c_layernorm") and "weight" in child._buffers:  # FalconMamba keeps a vector of ones
        child.weight = child.weight.new_ones(size)


def settle_config(model: nn.Module, layers: Sequence[Layer], sizes: Sequence[int]) -> None:
    """Write the sizes into a transformers configuration: one number, or per layer where they differ."""
    config: Any = getattr(model, "config", None)
    key = next((key for key in STATE_SIZE_KEYS if key in getattr(config, "__dict__", {})), None)
    if key is None:
        return
    varied = len(set(sizes)) > 1
    if not hasattr(type(config), "per_layer_config"):
        if varied:
            raise AireError("This version of transformers cannot describe layers of different sizes; 5.x can.")
        setattr(config, key, sizes[0])
        return
    overrides: dict[int, dict[str, Any]] = {
        int(number): {name: value for name, value in layer.items() if name != key}
        for number, layer in (config.to_dict().get("per_layer_config") or {}).items()
    }
    config.per_layer_config = None
    config.__dict__[key] = max(sizes)
    if varied:
        for layer, size in zip(layers, sizes, strict=True):
            number = getattr(model.get_submodule(layer.name), "layer_idx", None)
            if number is None:
                raise AireError(f"Layer {layer.name} does not know its number, so its size cannot be written down.")
            overrides.setdefault(int(number), {})[key] = size
    overrides = {number: layer for number, layer in overrides.items() if layer}
    config.per_layer_config = overrides or None


__all__ = ["ModuleArrays", "check_groups", "foreign_config", "prune_module", "resize_module", "settle_config"]
