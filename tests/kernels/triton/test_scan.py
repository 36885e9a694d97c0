"""The Triton kernels of the diagonal scan in Triton's interpreter, on CPU tensors, against the plain torch recurrence."""

from __future__ import annotations

import importlib.util

import pytest
import torch

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)

from aireprune.kernels.scan import diagonal_scan_reference
from aireprune.kernels.triton import scan as triton_scan


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("batch", "length", "p"), [(2, 9, 5), (1, 1, 1), (1, 4, 33)])
def test_diagonal_scan_and_gradients(batch: int, length: int, p: int, bidirectional: bool) -> None:
    torch.manual_seed(0)
    lam = torch.polar(torch.rand(p, dtype=torch.float64), 6 * torch.rand(p, dtype=torch.float64))
    leaves = [
        t.clone().requires_grad_() for t in (lam.real, lam.imag, torch.randn(batch, length, 2 * p, dtype=torch.float64))
    ]
    expected = diagonal_scan_reference(*leaves, bidirectional)
    g = torch.randn_like(expected)
    with torch.no_grad():
        x = triton_scan.triton_diagonal_scan(*leaves, bidirectional)
        dbu, dlam = triton_scan.triton_diagonal_scan_backward(leaves[0], leaves[1], x, g)
    torch.testing.assert_close(x, expected, rtol=1e-12, atol=1e-12)
    d_re, d_im, d_bu = torch.autograd.grad(expected, leaves, g)
    torch.testing.assert_close(dbu, d_bu, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(dlam, torch.cat([d_re, d_im]), rtol=1e-11, atol=1e-11)
