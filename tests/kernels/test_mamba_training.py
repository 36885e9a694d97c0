"""A Mamba layer in training: values and gradients are those of its parts, step by step in plain torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from aireprune.kernels.conv import causal_conv_reference
from aireprune.kernels.mamba_training import mamba_training
from aireprune.kernels.selective import selective_scan_reference


def by_parts(
    u: Tensor, convolution: list[Tensor], x_proj: Tensor, dt_proj: list[Tensor], A: Tensor, D: Tensor
) -> Tensor:
    (x, z), n = u.chunk(2, -1), A.shape[1]
    x = causal_conv_reference(x, *convolution)
    dt, b, c = (x @ x_proj.T).split([dt_proj[0].shape[1], n, n], -1)
    state = u.new_zeros(len(u), *A.shape)
    return selective_scan_reference(x, dt @ dt_proj[0].T, A, b, c, D, dt_proj[1], z, state)[0]


def problem(length: int, d: int, n: int, rank: int, taps: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = ((2, length, 2 * d), (d, 1, taps), (d,), (rank + 2 * n, d), (d, rank), (d,), (d, n), (d,))
    tensors = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes]
    tensors[3] /= d**0.5
    tensors[6] = -torch.exp(tensors[6])
    return [t.to(dtype).requires_grad_() for t in tensors]


def outcome(run, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    u, taps, bias, x_proj, weight, dt_bias, A, D = leaves
    y = run(u, (taps, bias), x_proj, (weight, dt_bias), A, D)
    loss = (y * torch.cos(torch.arange(y.numel())).view_as(y)).sum()
    return (y.detach(), *torch.autograd.grad(loss, leaves))


@pytest.mark.parametrize(  # 24 steps are a chunk
    ("length", "d", "n", "rank", "taps"),
    [(150, 64, 16, 2, 4), (25, 5, 3, 1, 4), (48, 17, 9, 10, 2), (2, 8, 1, 1, 4), (3, 4, 0, 1, 1)],
)  # fmt: skip
def test_gradients_are_those_of_the_parts(length, d, n, rank, taps):
    found = outcome(mamba_training, problem(length, d, n, rank, taps, torch.float32))
    expected = outcome(by_parts, problem(length, d, n, rank, taps))
    for single, double in zip(found, expected, strict=True):
        largest = float(double.abs().max()) if double.numel() else 0.0
        torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-5 * largest)


def test_shapes_that_do_not_fit():
    u, taps, bias, x_proj, weight, dt_bias, A, D = problem(5, 6, 2, 1, 4)
    with pytest.raises(ValueError, match=r"expected \("):
        mamba_training(u, (taps, bias), x_proj[1:], (weight, dt_bias), A, D)
