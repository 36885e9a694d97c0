"""GELU and the gated linear unit as torch operators for training on the CPU: one pass over memory each way.

Torch's own serve every other call: other devices and precisions, transforms, and calls that want no gradient.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional as F

from aireprune.kernels.inputs import dense, learns_here
from aireprune.kernels.operators import operator


def gelu(x: Tensor) -> Tensor:
    """x Phi(x), Phi the distribution function of a normal variable; x (b, L, h)."""
    if not learns_here(x):
        return F.gelu(x)
    out: Tensor = _gelu(x)
    return out


def glu(x: Tensor) -> Tensor:
    """a sigmoid(b) of the halves a, b of the last axis: x (b, L, 2h) -> (b, L, h)."""
    if not learns_here(x):
        return F.glu(x, dim=-1)
    out: Tensor = _glu(x)
    return out


@operator("gelu")
def _gelu(x: Tensor) -> Tensor:
    from aireprune.kernels.numba.gates import gelu as kernel

    out = x.new_empty(x.shape)
    kernel(dense(x).reshape(-1), out.numpy().reshape(-1))
    return out


@operator("gelu_backward", final=True)
def _gelu_backward(x: Tensor, g: Tensor) -> Tensor:
    from aireprune.kernels.numba.gates import gelu_backward as kernel

    out = x.new_empty(x.shape)
    kernel(dense(x).reshape(-1), dense(g).reshape(-1), out.numpy().reshape(-1))
    return out


@operator("glu")
def _glu(x: Tensor) -> Tensor:
    from aireprune.kernels.numba.gates import glu as kernel

    h = x.shape[-1] // 2
    out = x.new_empty(*x.shape[:-1], h)
    kernel(dense(x).reshape(-1, 2 * h), out.numpy().reshape(-1, h))
    return out


@operator("glu_backward", final=True)
def _glu_backward(x: Tensor, g: Tensor) -> Tensor:
    from aireprune.kernels.numba.gates import glu_backward as kernel

    h, out = g.shape[-1], x.new_empty(x.shape)
    kernel(dense(x).reshape(-1, 2 * h), dense(g).reshape(-1, h), out.numpy().reshape(-1, 2 * h))
    return out


def _like_first(x: Tensor, *_: Tensor) -> Tensor:
    return x.new_empty(x.shape)


_gelu.register_fake(_like_first)
_gelu_backward.register_fake(_like_first)
_glu_backward.register_fake(_like_first)


@_glu.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-1], x.shape[-1] // 2)


def _save_for_backward(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


_gelu.register_autograd(lambda ctx, g: _gelu_backward(*ctx.saved_tensors, g), setup_context=_save_for_backward)
_glu.register_autograd(lambda ctx, g: _glu_backward(*ctx.saved_tensors, g), setup_context=_save_for_backward)
