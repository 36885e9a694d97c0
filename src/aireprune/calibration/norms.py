"""Batch norm statistics of a reduced model, refreshed on its own activations.

The full model's statistics belong to the full model's activations. Those of the reduced model are shifted and scaled a
little, channel by channel. With mean m and variance v of what the norm reads, on the same inputs in both models, the
reduced model gets the statistics under which its normalised values have the mean and variance they have in the full
model:

    var' + eps = (var + eps) v_reduced / v_full        mean' = m_reduced - (m_full - mean) sqrt(v_reduced / v_full)
"""

from __future__ import annotations

import torch
from torch import Tensor

from aireprune.calibration.walk import Walk
from aireprune.models.s5 import BatchNorm

FLOOR = 1e-12


def match_batch_norm(walk: Walk, before: bool) -> None:
    """Refresh the batch norm of the present block; `before`: it reads the block's input (pre-norm)."""
    i = walk.at
    norm, original = walk.reduced.batch_norm(i), walk.full.batch_norm(i)
    if norm is None or original is None or before != walk.reduced.prenorm:
        return
    sums = torch.zeros(2, 3, walk.full.width, dtype=torch.float64)  # of full and reduced: count, sum, sum of squares
    for pair in walk:
        for row, stack, z in ((0, walk.full, pair.full), (1, walk.reduced, pair.reduced)):
            seen = z if before else stack.before_norm(i, z, stack.put_out(i, stack.read(i, z)))
            flat = seen.flatten(0, 1).double()
            sums[row] += torch.stack([torch.full_like(flat[0], len(flat)), flat.sum(0), (flat**2).sum(0)])
    (m_full, v_full), (m_reduced, v_reduced) = (_mean_and_variance(row) for row in sums)
    ratio = torch.where((v_full > FLOOR) & (v_reduced > FLOOR), v_reduced / v_full.clamp(min=FLOOR), 1.0)
    mean, variance = _statistics(original)
    new_mean, new_variance = _statistics(norm)
    new_mean.copy_(m_reduced - (m_full - mean.double()) * ratio.sqrt())
    new_variance.copy_(((variance.double() + norm.eps) * ratio - norm.eps).clamp(min=0))


def _statistics(norm: BatchNorm) -> tuple[Tensor, Tensor]:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    return norm.running_mean, norm.running_var


def _mean_and_variance(sums: Tensor) -> tuple[Tensor, Tensor]:
    mean = sums[1] / sums[0]
    return mean, (sums[2] / sums[0] - mean**2).clamp(min=0)
