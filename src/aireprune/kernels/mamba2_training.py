"""A Mamba-2 layer in training on the CPU: convolution, scan, gate and norm with one hand-written backward pass.

Shapes: b batch, L time, H heads of P channels, G groups of N states, k taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from aireprune.kernels.inputs import expect
from aireprune.kernels.numba.constants import LOG2E


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of a layer; eps: of its norm."""

    heads: int
    width: int
    groups: int
    states: int
    eps: float

    @property
    def parts(self) -> tuple[int, int, int, int]:
        return self.heads, self.width, self.groups, self.states

    def filled(self, values: Tensor) -> Tensor:
        """Values (.., channels) of [x], or of [x | B | C], in the kernels' order: heads and states in whole vectors."""
        from aireprune.kernels.numba.strided import whole

        size, channels = values.element_size(), self.heads * self.width
        kinds = [(self.heads, self.width)]
        if values.shape[-1] > channels:
            kinds.append((2 * self.groups, self.states))
        found = []
        for part, (count, width) in zip(values.split([n * w for n, w in kinds], -1), kinds, strict=True):
            fill = int(whole(width, size)) - width
            found.append(torch.nn.functional.pad(part.unflatten(-1, (count, width)), (0, fill)).flatten(-2))
        return torch.cat(found, -1).contiguous()

    def emptied(self, values: Tensor) -> Tensor:
        """The way back."""
        from aireprune.kernels.numba.strided import whole

        size = values.element_size()
        channels = self.heads * int(whole(self.width, size))
        found = [values[..., :channels].unflatten(-1, (self.heads, -1))[..., : self.width].flatten(-2)]
        if values.shape[-1] > channels:
            gates = values[..., channels:].unflatten(-1, (2 * self.groups, -1))
            found.append(gates[..., : self.states].flatten(-2))
        return torch.cat(found, -1)


def mamba2_training(
    u: Tensor, sizes: Sizes, convolution: Sequence[Tensor], heads: Sequence[Tensor], weight: Tensor
) -> Tensor:
    """u (b, L, 2 H P + 2 G N + H), the parts [z | x | B | C | dt] -> norm(scan silu(z)) weight, (b, L, H P).

    convolution: taps (channels, 1, k) and bias (channels,) of [x | B | C]. heads: A < 0, D and dt_bias, (H,) each. weight
    (H P,) of the norm.
    """
    inner, channels = sizes.heads * sizes.width, sizes.heads * sizes.width + 2 * sizes.groups * sizes.states
    taps, bias = convolution
    expect(
        "mamba2_training", u=(u, (*u.shape[:2], inner + channels + sizes.heads)), weight=(weight, (inner,)),
        taps=(taps, (channels, 1, taps.shape[2])), bias=(bias, (channels,)), A=(heads[0], (sizes.heads,)),
        D=(heads[1], (sizes.heads,)), dt_bias=(heads[2], (sizes.heads,)),
    )  # fmt: skip
    out: Tensor = _Layer.apply(u, sizes, *convolution, *heads, weight)
    return out


class _Layer(torch.autograd.Function):
    """`mamba2_training`; saved are u, the states that enter chunks, and y."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, sizes: Sizes, *weights: Tensor) -> Tensor:
        from aireprune.kernels.numba import mamba2_training as numba_layer
        from aireprune.kernels.numba.ssd_chunks import CHUNK
        from aireprune.kernels.numba.strided import whole

        u, (batch, length, _), size = u.detach().contiguous(), u.shape, u.element_size()
        wide, padded = int(whole(sizes.width, size)), int(whole(sizes.states, size))
        chunks = -(-length // CHUNK)
        starts = u.new_zeros(batch, chunks + 1, sizes.groups, padded * (sizes.heads // sizes.groups) * wide)
        answers = u.new_empty(batch, length * sizes.heads * wide)
        out = u.new_empty(batch, length, sizes.heads * sizes.width)
        arguments = _arguments(sizes, weights)
        numba_layer.forward(u.numpy(), *arguments, *(t.numpy() for t in (starts, answers, out)))
        ctx.sizes = sizes
        ctx.save_for_backward(u, starts, answers, *weights)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gout: Tensor) -> Any:
        from aireprune.kernels.numba import mamba2_training as numba_layer

        u, starts, answers, *weights = ctx.saved_tensors
        sizes, arguments = ctx.sizes, _arguments(ctx.sizes, weights)
        k, filled = arguments[1].shape
        gu, gheads = torch.empty_like(u), u.new_zeros(len(u), 3, sizes.heads)
        gtaps, gshift = u.new_zeros(len(u), k, filled), u.new_zeros(len(u), filled)
        gweight = u.new_zeros(len(u), arguments[6].shape[0])
        given = (t.numpy() for t in (starts, answers, gout.contiguous(), gu, gtaps, gshift, gheads, gweight))
        numba_layer.backward(u.numpy(), *arguments, *given)
        gA, gD, gbias = gheads.sum(0)
        of_taps = sizes.emptied(gtaps.sum(0)).T[:, None]
        return gu, None, of_taps, sizes.emptied(gshift.sum(0)), LOG2E * gA, gD, gbias, sizes.emptied(gweight.sum(0))


def _arguments(sizes: Sizes, weights: Sequence[Tensor]) -> tuple[Any, ...]:
    """What the kernels take between u and what they fill."""
    taps, bias, A, D, dt_bias, weight = (w.detach() for w in weights)
    skip = D[:, None].expand(-1, sizes.width).flatten()
    arrays = (
        sizes.filled(taps[:, 0].T),
        sizes.filled(bias),
        A * LOG2E,
        sizes.filled(skip),
        dt_bias,
        sizes.filled(weight),
    )
    eps = torch.tensor(sizes.eps, dtype=A.dtype).numpy()[()]
    return (sizes.parts, *(a.contiguous().numpy() for a in arrays), eps)
