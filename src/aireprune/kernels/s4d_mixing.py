"""What follows the scan of an S4D layer in training on the CPU: GELU, mixing of channels, gate, dropout, residual and layer
norm with one hand-written backward pass.

Shapes: b batch, L time, h channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aireprune.kernels.buffers import arrays, buffers
from aireprune.kernels.inputs import expect
from aireprune.kernels.scan import fresh


@dataclass(frozen=True, kw_only=True)
class Given:
    """What takes no gradient. first, second (b, h): factors of the dropouts after GELU and gate. eps: of the norm."""

    first: Tensor
    second: Tensor
    eps: float = 0.0


def s4d_mixing(
    y: Tensor, z: Tensor, given: Given, mixing: tuple[Tensor, Tensor], norm: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """y (b, L, h), what the scan puts out, and z (b, L, h), what entered the layer -> (b, L, h).

    mixing: weight (2h, h) and bias (2h,). norm: weight and bias (h,) of a layer norm behind the residual, if there is one.
    """
    h = y.shape[2]
    weight, bias = (y.new_empty(0), y.new_empty(0)) if norm is None else norm
    expect(
        "s4d_mixing", z=(z, tuple(y.shape)), weight=(mixing[0], (2 * h, h)), bias=(mixing[1], (2 * h,)),
        norm=(weight, (h if norm else 0,)), norm_bias=(bias, tuple(weight.shape)),
    )  # fmt: skip
    result: Tensor = _Mixing.apply(y, z, given, *mixing, weight, bias)
    return result


class _Mixing(torch.autograd.Function):
    """`s4d_mixing`; saved are y and z."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, given: Given, *weights: Tensor) -> Tensor:
        from aireprune.kernels.numba import s4d_mixing as kernels
        from aireprune.kernels.numba.compile import threads

        y, z = (x.detach().contiguous() for x in (y, z))
        mixing, bias, *norm = (w.detach().contiguous() for w in weights)
        out, room = fresh(y, *y.shape), kernels.forward_room(y.shape[1], y.shape[2], y.element_size())
        kernels.forward(
            *arrays(y, z, mixing, bias), arrays(given.first, given.second), arrays(*norm), given.eps,
            buffers(room, threads(), y), out.numpy(),
        )  # fmt: skip
        ctx.given = given
        ctx.save_for_backward(y, z, *weights)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        from aireprune.kernels.numba import s4d_mixing as kernels
        from aireprune.kernels.numba.compile import threads

        y, z, *weights = ctx.saved_tensors
        mixing, bias, *norm = (w.detach().contiguous() for w in weights)
        given, (_, length, h), size, workers = ctx.given, y.shape, y.element_size(), threads()
        dy, dz = fresh(y, *y.shape), fresh(y, *y.shape)
        sums = tuple(np.zeros((workers, *shape), y.numpy().dtype) for shape in kernels.sums_room(h, size))
        kernels.backward(
            *arrays(grad.contiguous(), y, z, mixing, bias), arrays(given.first, given.second), arrays(*norm), given.eps,
            buffers(kernels.backward_room(length, h, size), workers, y), sums, *arrays(dy, dz),
        )  # fmt: skip
        of_mixing, *rows = (torch.from_numpy(total.sum(0)) for total in sums)
        of_bias, of_weight, of_shift = (row[0] for row in rows)
        of_norm = (of_weight, of_shift) if len(norm[0]) else (None, None)
        return dy, dz, None, of_mixing[:, :h], of_bias, *of_norm
