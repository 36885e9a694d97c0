"""What the operators share: which tensors a kernel can take, and how it reads them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def expect(operator: str, **tensors: tuple[Tensor | None, tuple[int, ...]]) -> None:
    """Refuse a tensor of another shape: kernels trust shapes, and would read and write out of bounds."""
    for name, (tensor, shape) in tensors.items():
        if tensor is not None and tuple(tensor.shape) != shape:
            raise ValueError(f"{operator}: {name} has the shape {tuple(tensor.shape)}, expected {shape}")


def forward_mode() -> bool:
    """Whether forward-mode derivatives are being taken; kernels do not compute them and would drop them silently."""
    return getattr(torch.autograd.forward_ad, "_current_level", -1) >= 0


def needs_grad(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def learns_here(u: Tensor, *weights: Tensor | None) -> bool:
    """Whether gradients are wanted of an ordinary call on the CPU, in one precision: what hand-written steps are for."""
    one_kind = u.dtype in (torch.float32, torch.float64) and all(w is None or w.dtype == u.dtype for w in weights)
    return one_kind and is_ordinary(u) and u.shape[0] * u.shape[1] > 0 and needs_grad(u, *weights)


def is_ordinary(u: Tensor) -> bool:
    """Whether it holds numbers on the CPU, and nobody records what is done to it but autograd, backwards."""
    recorded = (
        torch._C._get_tracing_state() is not None
        or torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
    )
    return type(u) in (Tensor, nn.Parameter) and u.device.type == "cpu" and not recorded and not forward_mode()


def dense(t: Tensor) -> Any:
    """The tensor as a contiguous array, without a copy if it is one already. Calls are avoided: each costs a microsecond."""
    if t.requires_grad:
        t = t.detach()
    return (t if t.is_contiguous() else t.contiguous()).numpy()


def columns(t: Tensor) -> tuple[Any, int]:
    """A (b, L, w) tensor as (contiguous array, first column): half of a projection is passed on without a copy."""
    batch, length, width = t.shape
    row = t.stride(1)
    column = t.storage_offset() % row if row else 0
    if t.stride(2) != 1 or t.stride(0) != length * row or column + width > row or t.is_contiguous():
        return dense(t), 0
    whole = t.detach().as_strided((batch, length, row), (length * row, row, 1), t.storage_offset() - column)
    return whole.numpy(), int(column)
