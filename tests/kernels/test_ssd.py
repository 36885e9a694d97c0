"""The Mamba-2 scan: kernel = chunks of matrix products = recurrence, their gradients, and decoding."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch_checks import check_autocast, check_compiled, check_compiled_step, draw

from aireprune.kernels import ssd


def problem(length: int = 70, groups: int = 2, width: int = 5, n: int = 11, dtype=torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = ((2, length, 4, width), (2, length, 4), (4,), (2, length, groups, n), (2, length, groups, n), (4,), (4,))
    tensors = [torch.randn(shape, dtype=dtype) for shape in (*shapes, (2, 4, width, n))]
    tensors[2] = -torch.exp(tensors[2])
    return tensors


@pytest.mark.parametrize("limits", [(0.0, math.inf), (0.1, 1.0)])
@pytest.mark.parametrize(
    ("length", "groups", "width", "n"), [(70, 2, 5, 11), (1, 1, 16, 8), (32, 4, 33, 1), (5, 1, 3, 0)]
)
def test_kernel_is_chunks_is_recurrence(length, groups, width, n, limits):
    *inputs, state = problem(length, groups, width, n)
    expected = ssd.ssd_reference(*inputs, *limits, state)
    for found in (ssd.ssd_scan(*inputs, limits, state), ssd.ssd_chunked(*inputs, *limits, state)):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("limits", [(0.0, math.inf), (0.3, 1.0)])
@pytest.mark.parametrize(
    ("length", "groups", "width", "n"), [(70, 2, 5, 11), (1, 1, 16, 8), (16, 4, 33, 1), (33, 1, 3, 64), (5, 1, 3, 0)]
)
def test_gradients_are_those_of_the_recurrence(length, groups, width, n, limits):
    def gradients(run):
        leaves = [t.requires_grad_() for t in problem(length, groups, width, n)]
        y, final = run(*leaves[:-1], *limits, leaves[-1])
        loss = (y * torch.cos(torch.arange(y.numel())).view_as(y)).sum() + final.square().sum()
        return torch.autograd.grad(loss, leaves)

    expected = gradients(ssd.ssd_reference)
    for run in (lambda *a: ssd.ssd_scan(*a[:7], a[7:9], a[9]), ssd.ssd_chunked):
        for found, wanted in zip(gradients(run), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_gradients_by_differences():
    leaves = [t.requires_grad_() for t in problem(5, width=2, n=3)]
    assert torch.autograd.gradcheck(lambda *a: ssd.ssd_scan(*a[:7], initial=a[7]), leaves)


def test_gradients_in_single_precision():
    single, double = (
        torch.autograd.grad(ssd.ssd_scan(*leaves[:7])[0].square().sum(), leaves[:7])
        for leaves in ([t.to(dtype).requires_grad_() for t in problem()] for dtype in (torch.float32, torch.float64))
    )
    for found, wanted in zip(single, double, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))


def test_long_decays_do_not_overflow():
    x, dt, A, B, C, D, bias, state = problem(64, dtype=torch.float32)
    y, final = ssd.ssd_chunked(x, dt + 50, A * 100, B, C, D, bias, 0.0, math.inf, state)
    assert y.isfinite().all()
    assert final.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_the_scan(dtype):
    x, dt, A, B, C, D, bias, state = problem(4, dtype=dtype)
    expected, final = ssd.ssd_scan(x, dt, A, B, C, D, bias, initial=state)
    with torch.no_grad():
        steps = [ssd.ssd_step(state, x[:, t], dt[:, t], A, B[:, t], C[:, t], D, bias) for t in range(4)]
    torch.testing.assert_close(torch.stack(steps, 1), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(state, final, rtol=1e-5, atol=1e-5)


def named(length=5, **changes):
    """Arguments of a scan by name: 2 sequences, 4 heads of 3 channels, 2 groups of 6 states."""
    b, h, p, g, n = 2, 4, 3, 2, 6
    given = {
        "x": draw(b, length, h, p),
        "dt": draw(b, length, h),
        "A": -draw(h).abs(),
        "B": draw(b, length, g, n),
        "C": draw(b, length, g, n),
        "D": draw(h),
        "dt_bias": draw(h),
    }
    return {**given, **changes}


@pytest.mark.parametrize("misfit", [{"B": draw(2, 4, 2, 6)}, {"B": draw(2, 5, 3, 6), "C": draw(2, 5, 3, 6)}])
def test_shapes_that_do_not_fit(misfit):
    with torch.no_grad(), pytest.raises(ValueError, match=r"expected \(|groups"):
        ssd.ssd_scan(**named(**misfit))


def test_a_state_that_does_not_fit():
    step = (draw(2, 4, 3), draw(2, 4), -draw(4).abs(), draw(2, 2, 6), draw(2, 2, 6), draw(4), draw(4))
    with torch.no_grad(), pytest.raises(ValueError, match=r"expected \("):
        ssd.ssd_step(draw(2, 4, 3, 5), *step)


@pytest.mark.parametrize("gradient", [True, False])
def test_no_steps(gradient):
    y, state = ssd.ssd_scan(**named(0, x=draw(2, 0, 4, 3).requires_grad_(gradient)))
    assert y.shape == (2, 0, 4, 3)
    assert not state.any()


# what the calls below share; A (2,) < 0
DT, A, B, D = draw(2, 9, 2), -torch.exp(draw(2)), draw(2, 9, 1, 3), draw(2)


def call(x: Tensor) -> Tensor:
    return ssd.ssd_scan(x.view(2, 9, 2, 3), DT, A, B, B.flip(1), D, D)[0]


def step(state: Tensor, x: Tensor) -> Tensor:
    return ssd.ssd_step(state.view(2, 2, 3, 3), x.view(2, 2, 3), DT[:, 0], A, B[:, 0], B[:, 1], D, D)


def test_compiled():
    check_compiled(call, draw(2, 9, 6))
    check_compiled_step(step, draw(2, 6, 3), draw(2, 6))


def test_autocast():
    check_autocast(call, draw(2, 9, 6))
