"""A Mamba layer in training on the CPU: convolution, steps and gates, scan and output gate with one hand-written backward
pass.

Shapes: b batch, L time, D channels, R rank of the steps, N states, k taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.kernels.inputs import expect
from aireprune.kernels.numba.constants import LOG2E


def mamba_training(
    u: Tensor, convolution: Sequence[Tensor], x_proj: Tensor, dt_proj: Sequence[Tensor], A: Tensor, D: Tensor
) -> Tensor:
    """u (b, L, 2D), the parts [x | z] -> scan silu(z), (b, L, D).

    convolution: taps (D, 1, k) and bias (D,). x_proj (R + 2N, D) makes [dt | B | C] of x; dt_proj: weight (D, R), bias (D,).
    A (D, N) < 0, D (D,).
    """
    (channels, n), (taps, bias), (weight, dt_bias) = A.shape, convolution, dt_proj
    ranks = weight.shape[1]
    expect(
        "mamba_training", u=(u, (*u.shape[:2], 2 * channels)), taps=(taps, (channels, 1, taps.shape[2])),
        bias=(bias, (channels,)), x_proj=(x_proj, (ranks + 2 * n, channels)), dt_proj=(weight, (channels, ranks)),
        dt_bias=(dt_bias, (channels,)), D=(D, (channels,)),
    )  # fmt: skip
    out: Tensor = _Layer.apply(u, taps, bias, x_proj, weight, dt_bias, A, D)
    return out


class _Layer(torch.autograd.Function):
    """`mamba_training`; saved are u and the states that enter chunks."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, *weights: Tensor) -> Tensor:
        from aireprune.kernels.numba import mamba_training as numba_layer
        from aireprune.kernels.numba.selective_chunks import CHUNK

        u = u.detach().contiguous()
        sizes, arrays = _sizes(weights), _arrays(weights)
        chunks = -(-u.shape[1] // CHUNK)
        starts, out = u.new_empty(len(u), chunks, len(arrays["pole"])), u.new_empty(*u.shape[:2], sizes[0])
        names = ("taps", "shift", "weights", "pole", "skip")
        numba_layer.forward(u.numpy(), sizes, *(arrays[name] for name in names), starts.numpy(), out.numpy())
        ctx.save_for_backward(u, starts, *weights)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gout: Tensor) -> Any:
        from aireprune.kernels.numba import mamba_training as numba_layer

        u, starts, *weights = ctx.saved_tensors
        sizes, arrays, gu = _sizes(weights), _arrays(weights), torch.empty_like(u)
        (channels, ranks, n), (k, wide) = sizes, arrays["taps"].shape
        per_sequence = (k * wide, wide, wide, wide, n * wide, (ranks + 2 * n) * wide, wide * ranks)
        sums = [u.new_zeros(len(u), size) for size in per_sequence]
        names = ("taps", "shift", "weights", "back", "pole", "skip")
        given, into = (arrays[name] for name in names), tuple(each.numpy() for each in sums)
        numba_layer.backward(u.numpy(), sizes, *given, starts.numpy(), gout.contiguous().numpy(), gu.numpy(), into)
        taps, shift, skip, bias, pole, matrix, spread = (each.sum(0) for each in sums)
        rank, states = weights[3].shape[1], weights[5].shape[1]
        of_x = matrix.view(-1, wide)[:, :channels].split([ranks, n, n])
        kept = [part[:count] for part, count in zip(of_x, (rank, states, states), strict=True)]
        return (
            gu,
            taps.view(k, wide)[:, :channels].T[:, None],
            shift[:channels],
            torch.cat(kept),
            spread.view(wide, ranks)[:channels, :rank],
            bias[:channels],
            pole.view(n, wide)[:states, :channels].T,
            skip[:channels],
        )


def _sizes(weights: Sequence[Tensor]) -> tuple[int, int, int]:
    """D, and R and N in whole vectors."""
    from aireprune.kernels.numba.strided import whole

    weight, A = weights[3], weights[5]
    size = A.element_size()
    return len(A), int(whole(weight.shape[1], size)), int(whole(A.shape[1], size))


def _arrays(weights: Sequence[Tensor]) -> dict[str, Any]:
    """What the kernels take, every axis in whole vectors."""
    taps, bias, x_proj, weight, dt_bias, A, D = (w.detach() for w in weights)
    ranks, states = weight.shape[1], A.shape[1]
    matrix = torch.cat([_filled(part.T) for part in x_proj.split([ranks, states, states])], -1)
    matrix, spread = _filled(matrix.T).T, _filled(_filled(weight).T)
    return {
        "taps": _filled(taps[:, 0].T).numpy(),
        "shift": _filled(bias).numpy(),
        "weights": tuple(t.reshape(-1).numpy() for t in (matrix.contiguous(), spread, _filled(dt_bias))),
        "back": tuple(t.contiguous().reshape(-1).numpy() for t in (matrix.T, spread.T)),
        "pole": _filled(_filled(A * LOG2E).T).reshape(-1).numpy(),
        "skip": _filled(D).numpy(),
    }


def _filled(values: Tensor) -> Tensor:
    """The last axis filled up with zeros to whole vectors."""
    from aireprune.kernels.numba.strided import whole

    fill = int(whole(values.shape[-1], values.element_size())) - values.shape[-1]
    return F.pad(values, (0, fill)).contiguous()
