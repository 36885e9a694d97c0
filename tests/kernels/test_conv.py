"""The fused convolution: the same as torch's, with gradients of everything."""

from __future__ import annotations

import pytest
import torch
from torch_checks import check_autocast, check_compiled, draw

from aireprune.kernels.conv import causal_conv, causal_conv_reference

TAPS, BIAS = draw(6, 1, 4), draw(6)


def call(x):
    return causal_conv(x, TAPS, BIAS)


@pytest.mark.parametrize("before", [True, False])
def test_kernel_is_torchs_convolution(before):
    u, weight, bias = draw(2, 140, 12)[..., 5:], draw(7, 1, 4), draw(7)
    context = draw(2, 3, 7) if before else None
    expected = causal_conv_reference(u, weight, bias, context)
    torch.testing.assert_close(causal_conv(u, weight, bias, context), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("which", ["bias", "before"])
def test_gradients_of_everything(which):
    u, weight = draw(2, 5, 8), draw(8, 1, 4)
    optional = {"bias": draw(8), "before": draw(2, 3, 8)}
    optional[which].requires_grad_()
    causal_conv(u, weight, **optional).sum().backward()
    assert optional[which].grad is not None


@pytest.mark.parametrize("silu", [True, False])
@pytest.mark.parametrize(("length", "taps"), [(1, 4), (2, 4), (200, 4), (7, 1)])
def test_gradients_are_torchs(length, taps, silu):
    shapes = ((3, length, 5), (5, 1, taps), (5,), (3, taps - 1, 5))

    def gradients(run):
        leaves = [draw(*shape, dtype=torch.float64).requires_grad_() for shape in shapes]
        wide = torch.cat([leaves[0], leaves[0] + 1, leaves[0]], dim=-1)  # one of several parts of a projection
        y = run(wide[..., 5:10], *leaves[1:], silu)
        return torch.autograd.grad((y * torch.cos(torch.arange(y.numel())).view_as(y)).sum(), leaves)

    for found, expected in zip(gradients(causal_conv), gradients(causal_conv_reference), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "arguments", [(draw(2, 5, 32), draw(8, 1, 4), None), (draw(2, 5, 8), draw(8, 1, 4), None, draw(2, 2, 8))]
)
def test_shapes_that_do_not_fit(arguments):
    with torch.no_grad(), pytest.raises(ValueError, match=r"expected \("):
        causal_conv(*arguments)


def test_compiled():
    check_compiled(call, draw(2, 9, 6))


def test_autocast():
    check_autocast(call, draw(2, 9, 6))
