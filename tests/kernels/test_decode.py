"""Weights in 8 bits."""

from __future__ import annotations

import torch
from torch_checks import draw

from aireprune.kernels.decode import rounded
from aireprune.kernels.numba.decode_codes import BLOCK


def test_a_number_is_off_by_half_a_step_at_most():
    weight = draw(7, 2 * BLOCK + 10)
    weight[3] *= 100
    weight[4] = 0
    stored, scale = rounded(weight)
    assert stored.dtype == torch.int8
    assert scale.shape == (7, 3)
    steps = scale.repeat_interleave(BLOCK, 1)[:, : weight.shape[1]]
    assert bool(((stored * steps - weight).abs() <= 0.501 * steps).all())
    assert stored.abs().max() == 127
