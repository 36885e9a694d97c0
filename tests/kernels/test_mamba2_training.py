"""A Mamba-2 layer in training: values and gradients are those of its parts, step by step in plain torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from aireprune.kernels.conv import causal_conv_reference
from aireprune.kernels.mamba2_training import Sizes, mamba2_training
from aireprune.kernels.ssd import ssd_reference


def by_parts(u: Tensor, sizes: Sizes, convolution: list[Tensor], heads: list[Tensor], weight: Tensor) -> Tensor:
    inner, gates = sizes.heads * sizes.width, sizes.groups * sizes.states
    z, xbc, dt = u.split([inner, inner + 2 * gates, sizes.heads], -1)
    x, b, c = causal_conv_reference(xbc, *convolution).split([inner, gates, gates], -1)
    b, c = (t.unflatten(-1, (sizes.groups, sizes.states)) for t in (b, c))
    state = u.new_zeros(len(u), sizes.heads, sizes.width, sizes.states)
    A, D, bias = heads
    y, _ = ssd_reference(x.unflatten(-1, (sizes.heads, -1)), dt, A, b, c, D, bias, 0.0, float("inf"), state)
    gated = (y.flatten(-2) * F.silu(z)).unflatten(-1, (sizes.groups, -1))
    return F.rms_norm(gated, gated.shape[-1:], eps=sizes.eps).flatten(-2) * weight


def problem(sizes: Sizes, length: int, taps: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    inner, heads = sizes.heads * sizes.width, sizes.heads
    channels = inner + 2 * sizes.groups * sizes.states
    shapes = (
        (2, length, inner + channels + heads),
        (channels, 1, taps),
        (channels,),
        (heads,),
        (heads,),
        (heads,),
        (inner,),
    )
    tensors = [torch.randn(shape, generator=random, dtype=torch.float64).to(dtype) for shape in shapes]
    tensors[3] = -torch.exp(tensors[3])
    return [t.requires_grad_() for t in tensors]


def outcome(run, sizes: Sizes, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    y = run(leaves[0], sizes, leaves[1:3], leaves[3:6], leaves[6])
    loss = (y * torch.cos(torch.arange(y.numel())).view_as(y)).sum()
    return (y.detach(), *torch.autograd.grad(loss, leaves, materialize_grads=True))


SIZES = [  # heads, channels of a head, groups, states, length, taps; 48 steps are a chunk
    (4, 16, 1, 64, 300, 4),
    (4, 5, 2, 11, 53, 3),
    (2, 3, 1, 1, 49, 4),
    (6, 4, 3, 8, 3, 4),
    (2, 8, 2, 0, 5, 1),
]


@pytest.mark.parametrize(("heads", "width", "groups", "states", "length", "taps"), SIZES)
def test_gradients_are_those_of_the_parts(heads, width, groups, states, length, taps):
    sizes = Sizes(heads=heads, width=width, groups=groups, states=states, eps=1e-5)
    found = outcome(mamba2_training, sizes, problem(sizes, length, taps, torch.float32))
    expected = outcome(by_parts, sizes, problem(sizes, length, taps))
    for single, double in zip(found, expected, strict=True):
        largest = float(double.abs().max()) if double.numel() else 0.0
        torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-5 * largest)


def test_shapes_that_do_not_fit():
    sizes = Sizes(heads=2, width=3, groups=1, states=2, eps=1e-5)
    leaves = problem(sizes, 5, 4)
    with pytest.raises(ValueError, match=r"expected \("):
        mamba2_training(leaves[0][..., 1:], sizes, leaves[1:3], leaves[3:6], leaves[6])
