"""A torch module as named arrays, and edits of named arrays applied to our own models."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.errors import AireError
from aireprune.families.base import Shape
from aireprune.files.base import Edit


class ModuleArrays:
    """The state dict of a module as named arrays; bfloat16 is handed out as float32."""

    def __init__(self, module: nn.Module):
        self._tensors = module.state_dict()
        self.shapes: Mapping[str, Shape] = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return to_numpy(self._tensors[name])


def to_numpy(tensor: Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).resolve_conj().numpy()


def like(values: np.ndarray, tensor: Tensor) -> Tensor:
    """An array as a tensor of the given one's dtype and device."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(dtype=tensor.dtype, device=tensor.device)


@runtime_checkable
class OwnConfig(Protocol):
    """Configuration of one of our models."""

    def to_dict(self) -> dict[str, Any]: ...

    def with_states(self, states: tuple[int, ...]) -> Any: ...


def is_own(model: nn.Module) -> bool:
    """Whether this is one of our models: it knows its family and can be rebuilt from its configuration."""
    return isinstance(getattr(model, "family", None), str) and isinstance(getattr(model, "config", None), OwnConfig)


def own_config(model: nn.Module) -> dict[str, Any]:
    """The configuration of one of our models as it is written to config.json."""
    config: Any = model.config
    return {"family": model.family, **config.to_dict()}


def module_config(model: nn.Module) -> dict[str, Any]:
    """What a module says about itself: our configuration, or that of a transformers model."""
    if is_own(model):
        return own_config(model)
    config: Any = getattr(model, "config", None)
    return dict(config.to_dict()) if hasattr(config, "to_dict") else {}


def edit_own(model: nn.Module, edits: Mapping[str, Edit], sizes: Sequence[int]) -> nn.Module:
    """A new model of the same class with the edited weights and these state counts."""
    config: Any = model.config
    tensors = model.state_dict()
    for name, edit in edits.items():
        tensors[name] = like(edit(to_numpy(tensors[name])), tensors[name])
    smaller: nn.Module = type(model)(config.with_states(tuple(sizes)))
    first = next(iter(model.parameters()))
    smaller = smaller.to(device=first.device, dtype=first.dtype)
    smaller.load_state_dict(tensors)
    return smaller.train(model.training)


def edit_copy(model: nn.Module, edits: Mapping[str, Edit], layers: Sequence[str]) -> nn.Module:
    """A copy of a module whose parameters are edited; nothing but their shapes may depend on the number of states.

    That is so for s5-pytorch, except where a layer raises B to a power or changes its poles with the input.
    """
    for name in layers:
        layer: Any = model.get_submodule(name)
        if getattr(layer, "degree", 1) != 1 or getattr(layer, "liquid", False):
            raise AireError(
                f"Layer {name} is not linear in its input (degree or liquid): only --reduce truncate applies."
            )
    changed = copy.deepcopy(model)
    for name, edit in edits.items():
        path, _, leaf = name.rpartition(".")
        old = changed.get_parameter(name)
        new = nn.Parameter(like(edit(to_numpy(old)), old), requires_grad=old.requires_grad)
        setattr(changed.get_submodule(path), leaf, new)
    return changed
