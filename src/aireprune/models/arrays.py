"""A torch module as named arrays, and what it says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from aireprune.arrays import Shape


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
    """What a module says about itself, as `Family.find` wants it: ours, transformers', mambapy's or s5-pytorch's."""
    if is_own(model):
        return own_config(model)
    config: Any = getattr(model, "config", None)
    if hasattr(config, "to_dict"):
        return dict(config.to_dict())
    for module in model.modules():
        own = getattr(module, "config", None)
        if own is not None and hasattr(own, "d_state"):  # mambapy
            return {"inner_layernorms": bool(getattr(own, "inner_layernorms", False))}
        if getattr(getattr(module, "discretize", None), "__name__", "") == "discretize_bilinear":  # s5-pytorch
            return {"discretization": "bilinear"}
    return {}
