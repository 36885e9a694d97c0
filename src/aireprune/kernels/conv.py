"""Depthwise causal convolution and SiLU in one pass, as a torch operator with a backward pass of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.kernels.inputs import columns, dense, expect, forward_mode
from aireprune.kernels.operators import operator


def causal_conv(
    u: Tensor, weight: Tensor, bias: Tensor | None, before: Tensor | None = None, silu: bool = True
) -> Tensor:
    """Depthwise causal convolution, then SiLU: u (b, L, D), weight (D, 1, k), before (b, k - 1, D) earlier inputs."""
    k, (batch, _, channels) = weight.shape[-1], u.shape
    expect(
        "causal_conv",
        weight=(weight, (channels, 1, k)),
        bias=(bias, (channels,)),
        before=(before, (batch, k - 1, channels)),
    )
    one_kind = u.dtype in (torch.float32, torch.float64) and all(
        t is None or t.dtype == u.dtype for t in (weight, bias, before)
    )
    if u.device.type == "cpu" and one_kind and not forward_mode():
        bias = weight.new_zeros(channels) if bias is None else bias
        before = u.new_zeros(batch, k - 1, channels) if before is None else before
        fused: Tensor = _causal_conv(u, weight, bias, before, silu)
        return fused
    return causal_conv_reference(u, weight, bias, before, silu)


def causal_conv_reference(
    u: Tensor, weight: Tensor, bias: Tensor | None, before: Tensor | None = None, silu: bool = True
) -> Tensor:
    """The same by torch's convolution, on any device and with any derivative."""
    k = weight.shape[-1]
    padded = F.pad(u.transpose(1, 2), (k - 1, 0)) if before is None else torch.cat([before, u], 1).transpose(1, 2)
    y = F.conv1d(padded, weight, bias, groups=len(weight)).transpose(1, 2)
    return F.silu(y) if silu else y


@operator("causal_conv")
def _causal_conv(u: Tensor, weight: Tensor, bias: Tensor, before: Tensor, silu: bool) -> Tensor:
    from aireprune.kernels.numba.conv import causal_conv as kernel

    y = u.new_empty(u.shape)
    kernel(*columns(u), dense(weight[:, 0].T), dense(bias), dense(before), silu, y.numpy())
    return y


@_causal_conv.register_fake
def _(u: Tensor, weight: Tensor, bias: Tensor, before: Tensor, silu: bool) -> Tensor:
    return u.new_empty(u.shape)


@operator("causal_conv_backward", final=True)
def _causal_conv_backward(
    u: Tensor, weight: Tensor, bias: Tensor, before: Tensor, silu: bool, gy: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from aireprune.kernels.numba.conv import causal_conv_backward as kernel

    gu, gbefore = u.new_zeros(u.shape), before.new_zeros(before.shape)
    gtaps, gbias = u.new_zeros(len(u), weight.shape[-1], len(weight)), u.new_zeros(len(u), len(weight))
    inputs = (*columns(u), dense(weight[:, 0].T), dense(bias), dense(before), silu, dense(gy))
    kernel(*inputs, gu.numpy(), gtaps.numpy(), gbias.numpy(), gbefore.numpy())
    return gu, gtaps.sum(0).T[:, None].contiguous(), gbias.sum(0), gbefore


@_causal_conv_backward.register_fake
def _(
    u: Tensor, weight: Tensor, bias: Tensor, before: Tensor, silu: bool, gy: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    like = [u.new_empty(t.shape) for t in (u, weight, bias, before)]
    return like[0], like[1], like[2], like[3]


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.silu = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, ...]:
    return (*_causal_conv_backward(*ctx.saved_tensors, ctx.silu, gy), None)


_causal_conv.register_autograd(_backward, setup_context=_save_for_backward)
