"""The S4D operator: scan = convolution = recurrence, and so are the gradients."""

from __future__ import annotations

import pytest
import torch
from torch_checks import check_autocast, check_compiled, draw

from aireprune.kernels import s4d as ops


def layer_parts(h: int, n: int, length: int, silent: float = 0.0, batch: int = 2) -> list[torch.Tensor]:
    """lam, w, skip, u in double precision; a share of the modes is silent, unevenly over channels."""
    random = torch.Generator().manual_seed(h * n + length)
    draw = lambda *shape: torch.randn(*shape, generator=random, dtype=torch.float64)  # noqa: E731
    lam = torch.polar(torch.exp(-0.3 * torch.rand(h, n, generator=random, dtype=torch.float64)), 3 * draw(h, n))
    w = torch.complex(draw(h, n), draw(h, n))
    w[torch.rand(h, n, generator=random) < silent * 2 * torch.rand(h, 1, generator=random)] = 0
    return [lam, w, draw(h), draw(batch, length, h)]


@pytest.mark.parametrize(("h", "n", "length"), [(16, 4, 300), (5, 7, 129), (40, 3, 128), (9, 1, 1), (1, 6, 50)])
@pytest.mark.parametrize("silent", [0.0, 0.6])
def test_scan_is_convolution_is_recurrence(h: int, n: int, length: int, silent: float) -> None:
    parts = layer_parts(h, n, length, silent)
    expected = ops.s4d_reference(*parts)
    torch.testing.assert_close(ops.s4d_scan(*parts), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(ops.s4d_fft(*parts), expected, rtol=1e-10, atol=1e-10)
    single = ops.s4d_scan(*parts[:2], parts[2].float(), parts[3].float())
    torch.testing.assert_close(single.double(), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


def test_a_single_sequence_is_split_over_threads() -> None:
    parts = layer_parts(70, 5, 300, 0.5, batch=1)
    torch.testing.assert_close(ops.s4d_scan(*parts), ops.s4d_reference(*parts), rtol=1e-10, atol=1e-10)


def test_the_way_is_chosen_by_size() -> None:
    assert ops.scan_is_faster(32, 512, 1024)  # few modes: whatever the batch
    assert ops.scan_is_faster(512, 8, 1024)  # a small batch: making the kernel costs more than the scan
    assert not ops.scan_is_faster(512, 512, 1024)


def test_the_convolution_does_not_wrap_around() -> None:
    u = torch.zeros(1, 8, 1)
    u[0, -1] = 1
    assert ops.convolve(u, torch.ones(1, 8))[0, :-1].abs().max() < 1e-6


def test_the_kernel_stays_accurate_to_its_end() -> None:
    angle = torch.tensor([[2.5, 0.7]], dtype=torch.float64)
    lam = torch.polar(torch.full_like(angle, 1 - 1e-6), angle)
    exact = (torch.exp(torch.log(lam)[..., None] * torch.arange(5000)).sum(1)).real
    found = ops.convolution_kernel(lam, torch.ones_like(lam).to(torch.complex64), 5000)
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("way", [ops.s4d_scan, ops.s4d_fft])
def test_gradients_are_those_of_the_recurrence(way: object) -> None:
    """Silent modes get gradients as well: they may come back to life in training."""
    parts = layer_parts(11, 3, 140, 0.5)
    weight = torch.randn(parts[3].shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gradients = []
    for function in (way, ops.s4d_reference):
        leaves = [part.clone().requires_grad_() for part in parts]
        (function(*leaves) * weight).sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_the_operator_is_registered_properly() -> None:
    lam, w, skip, u = layer_parts(4, 2, 10)
    arguments = tuple(part.clone().requires_grad_() for part in (lam.real, lam.imag, w.real, w.imag, skip, u))
    torch.library.opcheck(
        ops._scan.packet.default, arguments, test_utils=("test_schema", "test_autograd_registration", "test_faketensor")
    )


LAM, W, SKIP = torch.polar(draw(6, 2).sigmoid(), draw(6, 2)), torch.complex(draw(6, 2), draw(6, 2)), draw(6)


def call(x: torch.Tensor) -> torch.Tensor:
    return ops.s4d(LAM, W, SKIP, x)


def test_compiled() -> None:
    check_compiled(call, draw(2, 9, 6))


def test_autocast() -> None:
    check_autocast(call, draw(2, 9, 6))


def test_no_steps() -> None:
    assert call(draw(2, 0, 6)).shape == (2, 0, 6)


def test_shapes_that_do_not_fit() -> None:
    with torch.no_grad(), pytest.raises(ValueError, match=r"expected \("):
        call(draw(2, 5, 7))
