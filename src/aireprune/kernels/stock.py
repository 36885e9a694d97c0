"""Whether a module and its parts are what hand-written steps take them for, and a call is one that they are for.

`stock`, a class attribute, names the classes of a module's parts as long as none has been replaced. It holds for the
class that states it, not for subclasses, which may have other equations.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from aireprune.kernels.inputs import is_ordinary


def kinds_of(module: nn.Module) -> Mapping[str, tuple[type[nn.Module], ...]] | None:
    """The stock parts that the module's own class, not a base of it, states."""
    found: Mapping[str, tuple[type[nn.Module], ...]] | None = type(module).__dict__.get("stock")
    return found


def is_stock(module: nn.Module, kinds: Collection[type[nn.Module]]) -> bool:
    """Whether it is of a stock class, without hooks that see what goes in or comes out."""
    return type(module) in kinds and not (
        module._forward_hooks
        or module._forward_pre_hooks
        or "forward" in module.__dict__
        or torch_module._global_forward_hooks
        or torch_module._global_forward_pre_hooks
    )


def is_unwatched(module: nn.Module, kinds: Collection[type[nn.Module]]) -> bool:
    """The same, without hooks on gradients either."""
    return is_stock(module, kinds) and not module._backward_hooks and not module._backward_pre_hooks


def wants_gradient(x: Tensor, module: nn.Module) -> bool:
    return torch.is_grad_enabled() and (x.requires_grad or any(p.requires_grad for p in module.parameters()))


def is_trained_here(z: Tensor, module: nn.Module) -> bool:
    """Whether gradients are wanted of an ordinary call on the CPU, in the precision of z (b, L, h)."""
    exact = z.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu")
    return exact and is_ordinary(z) and z.shape[0] * z.shape[1] > 0 and wants_gradient(z, module)
