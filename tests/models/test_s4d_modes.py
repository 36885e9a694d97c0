"""Modes are kept while the parameters stay the same, and made anew when any of them changes, however it does."""

from __future__ import annotations

import pytest
import torch
from small_models import s4d
from torch_checks import draw

from aireprune.kernels.s4d import s4d as operator
from aireprune.models.s4d_modes import kept_modes


def test_the_same_modes_are_kept():
    kernel = s4d().s4_layers[0].kernel
    first = kept_modes(kernel, torch.float32)
    assert kept_modes(kernel, torch.float32) is first
    assert kept_modes(kernel, torch.float64) is not first


@pytest.mark.parametrize("name", ["C", "log_dt", "log_A_real", "A_imag"])
def test_no_change_goes_unnoticed(name):
    """Not even one through `.data`, which leaves no trace in torch."""
    layer, u = s4d().s4_layers[0], draw(2, 30, 6)
    with torch.no_grad():
        before = layer.ssm(u)
        getattr(layer.kernel, name).data.mul_(1.1)
        after, exact = layer.ssm(u), operator(*layer.kernel.discrete(), layer.D, u)
    torch.testing.assert_close(after, exact, rtol=0, atol=1e-6)
    assert not torch.allclose(after, before, rtol=1e-3)


def test_other_precision():
    layer, u = s4d().s4_layers[0], draw(2, 30, 6)
    with torch.no_grad():
        single = layer.ssm(u)
        double = layer.double().ssm(u.double())
    torch.testing.assert_close(double.float(), single, rtol=1e-4, atol=1e-5)


def test_gradients_do_not_pass_through_what_is_kept():
    layer, u = s4d().s4_layers[0], draw(2, 30, 6)
    with torch.no_grad():
        kept = layer.ssm(u)
    y = layer.ssm(u)
    torch.testing.assert_close(y.detach(), kept, rtol=0, atol=1e-6)
    y.sum().backward()
    assert all(parameter.grad is not None for parameter in layer.kernel.parameters())
