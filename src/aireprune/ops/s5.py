"""An S5 layer, or a whole S5 block, without gradients as one torch operator on the CPU.

Shapes: b batch, L time, h features, P modes, d directions; real tensors hold [Re | Im] in an axis of 2P.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from aireprune.ops.kernel_inputs import dense
from aireprune.ops.scan import HAVE_NUMBA

ACTIVATIONS = {"": 0, "gelu": 1, "half_glu1": 2, "half_glu2": 3, "full_glu": 4}
NORMS = {"": 0, "affine": 1, "layer": 2}


def fusible(z: Tensor, module: nn.Module) -> bool:
    """Whether the operators below can take the place of the module's forward: no gradient is wanted, z is on the CPU."""
    wants_grad = torch.is_grad_enabled() and (z.requires_grad or any(p.requires_grad for p in module.parameters()))
    return HAVE_NUMBA and z.device.type == "cpu" and z.is_floating_point() and not wants_grad


def s5_layer(u: Tensor, lam: Tensor, b: Tensor, c: Tensor, skip: Tensor) -> Tensor:
    """y = C x + skip u with x_t = lam x_{t-1} + B u_t, and backwards too if c has columns for two directions.

    u (b, L, h), lam (P,) complex, b (2P, h), c (h, d * 2P), skip (h,) -> (b, L, h).
    """
    zeros = skip.new_zeros(skip.shape[0])
    return s5_block(u, lam, b, b.new_zeros(b.shape[0]), c, skip, zeros, b.new_zeros(0, b.shape[1]), zeros[:0])


def s5_block(
    z: Tensor,
    lam: Tensor,
    b: Tensor,
    b_bias: Tensor,
    c: Tensor,
    skip: Tensor,
    shift: Tensor,
    w: Tensor,
    w_bias: Tensor,
    activation: str = "",
    pre: str = "",
    post: str = "",
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    eps: float = 0.0,
) -> Tensor:
    """Layer, activation, gate and residual; half precision is computed in single precision.

    u is z, or its rows normalised if pre is "layer" (what a norm multiplies and adds is folded by the caller);
    x_t = lam x_{t-1} + b_bias + B u_t; y = C x + skip u + shift; the gate's w (h, h), for full_glu (2h, h) with the
    value's rows first. The result z + gated(y) has its rows normalised if post is "layer", and is then multiplied by
    scale (h,) and shifted by offset (h,) if post is "layer" or "affine". Without an activation the result is y.
    """
    working = torch.float64 if z.dtype == torch.float64 else torch.float32
    tensors = (lam.real, lam.imag, b, b_bias, c, skip, shift, w, w_bias)
    ends = (skip if scale is None else scale, shift if offset is None else offset)
    codes = (ACTIVATIONS[activation], NORMS[pre], NORMS[post])
    out = _s5_block(z.to(working), *(t.to(working) for t in (*tensors, *ends)), *codes, eps)
    return out.to(z.dtype)


@torch.library.custom_op("aireprune::s5_block", mutates_args=(), device_types="cpu")
def _s5_block(
    z: Tensor,
    lam_re: Tensor,
    lam_im: Tensor,
    b: Tensor,
    b_bias: Tensor,
    c: Tensor,
    skip: Tensor,
    shift: Tensor,
    w: Tensor,
    w_bias: Tensor,
    scale: Tensor,
    offset: Tensor,
    activation: int,
    pre: int,
    post: int,
    eps: float,
) -> Tensor:
    import numba

    from aireprune.ops import numba_s5

    out = torch.empty(z.shape, dtype=z.dtype)
    workers = min(torch.get_num_threads(), numba.get_num_threads())
    tensors = (z, lam_re, lam_im, b, b_bias, c, skip, shift, w, w_bias, scale, offset)
    numba_s5.forward(*(*map(dense, tensors), activation, pre, post, eps, workers, out.numpy()))
    return out


@_s5_block.register_fake
def _(z: Tensor, *arguments: Tensor | float) -> Tensor:
    return torch.empty(z.shape, dtype=z.dtype, device=z.device)
