"""Batch norm statistics of a reduced model, refreshed on its own activations.

The full model's statistics belong to the full model's activations. Those of the reduced model are shifted and scaled a
little, channel by channel. With mean m and variance v of what the norm reads, on the same inputs in both models, the
reduced model gets the statistics under which its normalised values have the mean and variance they have in the full
model:

    var' + eps = (var + eps) v_reduced / v_full        mean' = m_reduced - (m_full - mean) sqrt(v_reduced / v_full)
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from aireprune.calibration.calls import Call
from aireprune.calibration.team import total

FLOOR = 1e-12


def batch_norms(model: nn.Module) -> dict[str, _BatchNorm]:
    """The batch norms that keep statistics, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm) and module.running_mean is not None and module.running_var is not None
    }


def by_channel(norm: _BatchNorm, call: Call) -> Tensor:
    """What the norm is called with, (t, channels): torch's own norms have the channels second, ours have them last."""
    x = call.first
    last = getattr(norm, "channels_last", False) or x.shape[1] != norm.num_features
    return x.reshape(-1, x.shape[-1]) if last else x.transpose(1, -1).reshape(-1, x.shape[1])


def match_statistics(
    full: _BatchNorm, reduced: _BatchNorm, full_calls: Iterable[Call], reduced_calls: Iterable[Call]
) -> None:
    """Refresh the statistics of the reduced model's norm, in place."""
    m_full, v_full = _mean_and_variance(full, full_calls)
    m_reduced, v_reduced = _mean_and_variance(reduced, reduced_calls)
    ratio = torch.where((v_full > FLOOR) & (v_reduced > FLOOR), v_reduced / v_full.clamp(min=FLOOR), 1.0)
    mean, variance = statistics(full)
    new_mean, new_variance = statistics(reduced)
    new_mean.copy_(m_reduced - (m_full - mean.double()) * ratio.sqrt())
    new_variance.copy_(((variance.double() + reduced.eps) * ratio - reduced.eps).clamp(min=0))


def statistics(norm: _BatchNorm) -> tuple[Tensor, Tensor]:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    return norm.running_mean, norm.running_var


def _mean_and_variance(norm: _BatchNorm, calls: Iterable[Call]) -> tuple[Tensor, Tensor]:
    sums = torch.zeros(3, norm.num_features, dtype=torch.float64)  # count, sum, sum of squares
    for call in calls:
        flat = by_channel(norm, call).double()
        sums += torch.stack([torch.full_like(flat[0], len(flat)), flat.sum(0), (flat**2).sum(0)])
    total(sums)
    mean = sums[1] / sums[0]
    return mean, (sums[2] / sums[0] - mean**2).clamp(min=0)
