"""The diagonal scan: kernel = reference = recurrence step by step = convolution, and so are the gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aireprune.kernels.scan import diagonal_scan, diagonal_scan_reference


def problem(batch=3, length=37, p=5, dtype=torch.float64, seed=0):
    rng = torch.Generator().manual_seed(seed)
    radius = torch.rand(p, generator=rng, dtype=torch.float64) * 0.5 + 0.5
    angle = torch.rand(p, generator=rng, dtype=torch.float64) * 6
    lam = torch.polar(radius, angle).to(torch.complex128 if dtype == torch.float64 else torch.complex64)
    return lam, torch.randn(batch, length, 2 * p, generator=rng, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 37, 5), (2, 130, 17)])
def test_kernel_is_the_recurrence(bidirectional, dtype, tolerance, shape):
    lam, bu = problem(*shape, dtype=dtype)
    x = diagonal_scan(lam, bu, bidirectional)
    assert x.shape == (*bu.shape[:2], 2 if bidirectional else 1, bu.shape[2])
    v, poles = torch.complex(*bu.chunk(2, -1)).numpy(), lam.numpy()
    for d in range(x.shape[2]):
        state = np.zeros_like(v[:, 0])
        for t in range(bu.shape[1]) if d == 0 else reversed(range(bu.shape[1])):
            state = poles * state + v[:, t]
            np.testing.assert_allclose(
                torch.complex(*x[:, t, d].chunk(2, -1)).numpy(), state, rtol=tolerance, atol=tolerance * 10
            )


def test_scan_is_convolution_with_powers_of_the_pole():
    lam, bu = problem()
    x = torch.complex(*diagonal_scan(lam, bu)[:, :, 0].chunk(2, -1)).numpy()
    powers = lam.numpy()[None, :] ** np.arange(bu.shape[1])[:, None]
    v = torch.complex(*bu.chunk(2, -1)).numpy()
    expected = np.stack([(powers[: t + 1][::-1] * v[:, : t + 1]).sum(1) for t in range(bu.shape[1])], 1)
    np.testing.assert_allclose(x, expected, rtol=1e-11)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradients_are_those_of_the_reference(bidirectional):
    lam, bu = problem()
    weight = torch.randn(
        3, 37, 2 if bidirectional else 1, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    gradients = []
    for run in (diagonal_scan, lambda lam, bu, two: diagonal_scan_reference(lam.real, lam.imag, bu, two)):
        poles, inputs = lam.clone().requires_grad_(), bu.clone().requires_grad_()
        (run(poles, inputs, bidirectional) * weight).sum().backward()
        gradients.append((poles.grad, inputs.grad))
    torch.testing.assert_close(gradients[0][0], gradients[1][0], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(gradients[0][1], gradients[1][1], rtol=1e-11, atol=1e-11)


def test_kernel_is_the_reference():
    lam, bu = problem()
    torch.testing.assert_close(diagonal_scan(lam, bu, True), diagonal_scan_reference(lam.real, lam.imag, bu, True))


def test_operator_contract():
    lam, bu = problem(batch=2, length=6, p=3)
    arguments = (lam.real.contiguous(), lam.imag.contiguous(), bu.requires_grad_(), True)
    torch.library.opcheck(torch.ops.aireprune.diagonal_scan.default, arguments)


def test_shapes_that_do_not_fit():
    lam, bu = problem(p=4)
    with torch.no_grad(), pytest.raises(ValueError, match=r"expected \("):
        diagonal_scan(lam[:2], bu)
