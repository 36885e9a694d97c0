"""GELU and the gated linear unit: values and gradients are torch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch_checks import draw

from aireprune.kernels import gates


@pytest.mark.parametrize(("ours", "torchs"), [(gates.gelu, F.gelu), (gates.glu, F.glu)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])
@pytest.mark.parametrize("shape", [(2, 70, 64), (3, 5, 2), (1, 1, 22)])
def test_values_and_gradients_are_torchs(ours, torchs, dtype, tolerance, shape):
    x = (4 * draw(*shape, dtype=torch.float64)).to(dtype).requires_grad_()
    found, expected = (run(x) for run in (ours, torchs))
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    g = draw(*found.shape, dtype=dtype)
    gradients = [torch.autograd.grad(y, x, g)[0] for y in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=tolerance, atol=2 * tolerance)


@pytest.mark.parametrize("ours", [gates.gelu, gates.glu])
def test_operator_contract(ours):
    function = {gates.gelu: gates._gelu, gates.glu: gates._glu}[ours]
    x = draw(2, 5, 6).requires_grad_()
    torch.library.opcheck(function.overload, (x,), test_utils=("test_schema", "test_faketensor"))


def test_without_gradients_it_is_torchs():
    x = draw(2, 5, 6)
    assert torch.equal(gates.gelu(x), F.gelu(x))
    assert torch.equal(gates.glu(x), F.glu(x))
