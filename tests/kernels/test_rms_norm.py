"""The RMS norm in training: torch's values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from aireprune.kernels import rms_norm
from aireprune.kernels.rms_norm import normed


def norm(width: int) -> nn.RMSNorm:
    made = nn.RMSNorm(width, eps=1e-5).double()
    with torch.no_grad():
        made.weight += torch.randn(width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return made


def inputs(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()


def gradients(out: torch.Tensor, *of: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad((out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum(), of)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [(2, 7, 5), (1, 3, 32), (3, 50, 37)], ids=str)
def test_equal_to_torch(shape, dtype, monkeypatch):
    module, x = norm(shape[-1]).to(dtype), inputs(*shape).detach().to(dtype).requires_grad_()
    expected = module(x)
    wanted = gradients(expected, x, module.weight)
    monkeypatch.setattr(nn.RMSNorm, "forward", None)  # torch's must not be called
    found = normed(module, x)
    tolerance = {"rtol": 1e-10, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(found, expected, **tolerance)
    for mine, theirs in zip(gradients(found, x, module.weight), wanted, strict=True):
        torch.testing.assert_close(mine, theirs, **tolerance)


def test_gradients_are_the_derivatives():
    module = norm(5)
    assert torch.autograd.gradcheck(lambda x: normed(module, x), (inputs(2, 3, 5),))


@pytest.mark.parametrize("module", [nn.Identity(), nn.LayerNorm(5).double(), nn.RMSNorm(5).double()], ids=repr)
def test_other_norms_run_by_themselves(module, monkeypatch):
    """Of an RMSNorm that does not say its epsilon, torch knows the one."""
    monkeypatch.setattr(rms_norm, "_Norm", None)
    torch.testing.assert_close(normed(module, inputs(2, 3, 5)), module(inputs(2, 3, 5)))


def test_a_norm_that_is_watched_runs_by_itself():
    module, seen = norm(5), []
    module.register_forward_hook(lambda *_: seen.append(1))
    normed(module, inputs(2, 3, 5))
    assert seen


def test_without_gradients_torch_serves(monkeypatch):
    monkeypatch.setattr(rms_norm, "_Norm", None)
    with torch.no_grad():
        assert normed(norm(5), inputs(2, 3, 5)).shape == (2, 3, 5)
