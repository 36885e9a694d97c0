"""Kernels flush denormal numbers to zero, in their own threads and no longer than they run."""

from __future__ import annotations

import numpy as np
import torch

from aireprune.kernels.scan import diagonal_scan


def test_denormals_are_flushed_and_the_register_is_put_back():
    """A decaying state ends in exact zeros in the kernel, while ordinary code still sees denormals afterwards."""
    lam = torch.tensor([0.5 + 0j], dtype=torch.complex64)
    bu = torch.zeros(4, 400, 2)
    bu[:, 0, 0] = 1.0
    x = diagonal_scan(lam, bu)[:, :, 0, 0]
    assert (x[:, -1] == 0).all()
    assert x[0, 126] > 0
    assert np.float32(1e-39) * np.float32(1.0) != 0
