"""Depthwise causal convolution and SiLU in one pass, as a torch operator."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.kernels.inputs import columns, dense, expect, forward_mode, needs_grad


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
    single = all(t is None or t.dtype == torch.float32 for t in (u, weight, bias, before))
    slow = needs_grad(u, weight, bias, before) or forward_mode()
    if u.device.type == "cpu" and single and not slow:
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        fused: Tensor = _causal_conv(u, weight, bias, before, silu)
        return fused
    padded = F.pad(u.transpose(1, 2), (k - 1, 0)) if before is None else torch.cat([before, u], 1).transpose(1, 2)
    y = F.conv1d(padded, weight, bias, groups=len(weight)).transpose(1, 2)
    return F.silu(y) if silu else y


@torch.library.custom_op("aireprune::causal_conv", mutates_args=(), device_types="cpu")
def _causal_conv(u: Tensor, weight: Tensor, bias: Tensor, before: Tensor | None, silu: bool) -> Tensor:
    from aireprune.kernels.numba.conv import causal_conv as kernel

    taps = weight.detach()[:, 0].T.contiguous()
    past = u.new_zeros(u.shape[0], len(taps) - 1, u.shape[2]) if before is None else before
    y = u.new_empty(u.shape)
    kernel(*columns(u), taps.numpy(), dense(bias), dense(past), silu, y.numpy())
    return y


@_causal_conv.register_fake
def _(u: Tensor, weight: Tensor, bias: Tensor, before: Tensor | None, silu: bool) -> Tensor:
    return u.new_empty(u.shape)
