"""Edits of named arrays applied to a module in memory: ours, transformers', mambapy's, s5-pytorch's.

The edits are those of the checkpoint; what is added here is that the module stays consistent with its smaller tensors:
sizes that layers remember, the convolution's channel count, buffers along the state axis, and the configuration.
transformers' caches take their shape from the first state they are given, so layers of different sizes need nothing
more.

transformers describes layers that differ by `config.per_layer_config`, {layer number: {"state_size": 4}, …}; layers
of one size are described by the plain `config.state_size`.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from aireprune.arrays import Added, Edit
from aireprune.errors import AireError
from aireprune.families import FAMILIES, Layer, find_layers
from aireprune.families.mamba2 import PROJECTIONS
from aireprune.files.sizes import STATE_SIZE_KEYS
from aireprune.models.accelerate import MAMBA2, accelerate, is_head_mixer
from aireprune.models.arrays import ModuleArrays, is_own, like, module_config, to_numpy
from aireprune.models.mamba2 import Mamba2Layer
from aireprune.models.projection import is_projected

COPYING = (
    "__deepcopy__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
)  # how a module may differ in it
REMEMBERED = ("ssm_state_size", "d_state", "modes", "states")  # what layers call their number of states


def edited(
    model: nn.Module, layers: Sequence[Layer[Any]], edits: Mapping[str, Edit], sizes: Sequence[int]
) -> nn.Module:
    """A copy of a module with edited tensors; the one given stays as it is.

    sizes: the states (per group or channel) that the arrays of each layer then hold.
    """
    check_editable(model, layers)
    changed = _copied(model, {})
    for old, new in zip(model.parameters(), changed.parameters(), strict=True):
        new.__dict__.update(old.__dict__)  # deepcopy drops marks such as _no_weight_decay
    _apply(changed, edits)
    _settle(changed, layers, edits, sizes)
    return changed


def _copied(module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    """`copy.deepcopy` of a module; the dozen empty dictionaries that each has need not go through their pickled form."""
    kind = type(module)
    if id(module) in memo or any(getattr(kind, name, None) is not getattr(nn.Module, name, None) for name in COPYING):
        again: nn.Module = copy.deepcopy(module, memo)
        return again
    state = module.__getstate__()
    memo[id(module)] = new = kind.__new__(kind)
    copied: dict[str, Any] = {}
    for name, value in state.items():
        if name == "_modules":
            copied[name] = type(value)(
                (key, None if child is None else _copied(child, memo)) for key, child in value.items()
            )
        elif type(value) in (dict, OrderedDict) and not value:
            copied[name] = type(value)()
        else:
            copied[name] = copy.deepcopy(value, memo)
    new.__setstate__(copied)
    return new


def resize_module(model: nn.Module, sizes: Sequence[int]) -> nn.Module:
    """Give every state space layer of a freshly built module this many states (of each group), in place.

    The weights then are those of the first states; they are meant to be overwritten by a checkpoint of these sizes.
    """
    layers = find_layers(ModuleArrays(model), module_config(model), where=type(model).__name__)
    if len(layers) != len(sizes):
        raise AireError(f"The model has {len(layers)} state space layers, but {len(sizes)} sizes are given.")
    edits: dict[str, Edit] = {}
    for layer, size in zip(layers, sizes, strict=True):
        per_group = layer.states // layer.groups
        if size > per_group:
            raise AireError(f"Layer {layer.name} has {per_group} states per group and cannot be given {size}.")
        kept = np.arange(layer.states).reshape(layer.groups, -1)[:, :size].ravel()
        if len(kept) < layer.states:
            edits |= {name: partial(cut.remove, kept=kept) for name, cut in FAMILIES[layer.family].cuts(layer).items()}
    _apply(model, edits)
    _settle(model, layers, edits, sizes)
    return model


def project_module(model: nn.Module, sizes: Sequence[int]) -> nn.Module:
    """Project every Mamba-2 layer of a freshly built module that has more states (of each group) than this, in place.

    The projections are zero; they are meant to be overwritten by a checkpoint.
    """
    layers = find_layers(ModuleArrays(model), module_config(model), where=type(model).__name__)
    edits: dict[str, Edit] = {}
    for layer, size in zip(layers, sizes, strict=True):
        if size < layer.states // layer.groups:
            empty = np.zeros((layer.groups * size, layer.options.values), np.float32)
            names = [f"{layer.name}.{role}" for role in PROJECTIONS]
            edits |= dict.fromkeys(names, Added(empty, layer.arrays["in_proj.weight"]))
    if edits:
        _apply(model, edits)
        _settle(model, layers, edits, sizes)
    return model


def check_projectable(model: nn.Module, layers: Sequence[Layer[Any]]) -> None:
    """Raise if the code of a layer cannot run it once it is projected."""
    for layer in layers:
        mixer = model.get_submodule(layer.name)
        if not isinstance(mixer, Mamba2Layer) and not is_head_mixer(mixer):
            raise AireError(
                f"Layer {layer.name} is a {type(mixer).__name__}, whose code cannot run projected states; our own Mamba-2 "
                f"and transformers' {', '.join(MAMBA2)} can. Use reduce='fitted'."
            )


def check_editable(model: nn.Module, layers: Sequence[Layer[Any]], linear: bool = False) -> None:
    """Raise if a layer of s5-pytorch cannot lose states or, with `linear`, cannot be replaced by another system."""
    for layer in layers:
        module = model.get_submodule(layer.name)
        power = getattr(module, "degree", 1) != 1
        if linear and (power or getattr(module, "liquid", False)):
            raise AireError(
                f"Layer {layer.name} is not linear in its input (degree or liquid): only reduce='truncate' applies."
            )
        if power:
            raise AireError(
                f"Layer {layer.name} raises its square B to a power; without some rows it is square no more."
            )


def _apply(model: nn.Module, edits: Mapping[str, Edit]) -> None:
    """Replace the tensors; dtype, device, requires_grad, marks and ties stay."""
    done: dict[int, Tensor] = {}
    for name, edit in edits.items():
        path, _, leaf = name.rpartition(".")
        owner = model.get_submodule(path)
        if isinstance(edit, Added):
            beside = model.get_parameter(edit.like)
            owner.register_parameter(leaf, nn.Parameter(_edited(edit, beside), requires_grad=beside.requires_grad))
            continue
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


def _settle(model: nn.Module, layers: Sequence[Layer[Any]], edits: Mapping[str, Edit], sizes: Sequence[int]) -> None:
    """Bring everything that remembers a size in line with the tensors. sizes: states of each layer, per group."""
    for layer, size in zip(layers, sizes, strict=True):
        mixer: Any = model.get_submodule(layer.name)
        for key in REMEMBERED:
            if isinstance(getattr(mixer, key, None), int):
                setattr(mixer, key, size)
        if hasattr(mixer, "conv_dim"):
            mixer.conv_dim = mixer.conv1d.weight.shape[0]
        if hasattr(mixer, "groups_time_state_size"):  # FalconH1
            mixer.groups_time_state_size = size * layer.groups
        rows = edits.get(layer.arrays.get("in_proj.weight", ""))
        if rows is not None and hasattr(mixer, "mup_vector"):  # FalconH1: one multiplier per row of in_proj
            vector = mixer.mup_vector
            mixer.mup_vector = like(rows(to_numpy(vector.reshape(-1))), vector).reshape(*vector.shape[:-1], -1)
        if hasattr(getattr(mixer, "config", None), "d_state"):  # mambapy: one configuration object for all layers
            mixer.config = copy.copy(mixer.config)
            mixer.config.d_state = size
        for name, child in mixer.named_children():
            _settle_child(name, child, size)
    settle_config(model, layers, sizes)
    _settle_projections(model, layers, sizes)


def _settle_projections(model: nn.Module, layers: Sequence[Layer[Any]], sizes: Sequence[int]) -> None:
    """Say in the configuration what layers are projected from; transformers' mixers get a forward that does it."""
    mixers: list[Any] = [model.get_submodule(layer.name) for layer in layers]
    if not any(map(is_projected, mixers)):
        return
    values = [m.B_proj.shape[1] if is_projected(m) else size for m, size in zip(mixers, sizes, strict=True)]
    config: Any = model.config
    if is_own(model):
        model.config = replace(config, projected_from=tuple(values))
        return
    config.projected_from = values if len(set(values)) > 1 else values[0]
    accelerate(model)


def _settle_child(name: str, child: Any, size: int) -> None:
    if isinstance(child, nn.Linear):
        child.out_features, child.in_features = child.weight.shape
    elif isinstance(child, nn.Conv1d):
        child.in_channels = child.out_channels = child.groups = child.weight.shape[0]
    elif name in ("b_layernorm", "c_layernorm") and "weight" in child._buffers:  # FalconMamba keeps a vector of ones
        child.weight = child.weight.new_ones(size)


def settle_config(model: nn.Module, layers: Sequence[Layer[Any]], sizes: Sequence[int]) -> None:
    """Write the sizes into the configuration: ours, or transformers', one number or per layer where they differ."""
    config: Any = getattr(model, "config", None)
    if is_own(model):
        model.config = config.with_states(tuple(sizes))
        return
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
