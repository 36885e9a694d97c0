"""Mamba-2 step by step, projected layers included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

from aireprune.families.mamba2 import PROJECTIONS
from aireprune.kernels.numba.constants import LOG2E
from aireprune.kernels.numba.step_codes import MAMBA2
from aireprune.kernels.step import Weights
from aireprune.models.recurrence.family import Memory, linear, numbers
from aireprune.models.recurrence.selective import STATE, SelectiveFamily, convolution


class Mamba2Family(SelectiveFamily):
    record = MAMBA2

    def layer(self, layer: Any, weights: Weights, memory: Memory, number: int) -> dict[str, int]:
        d, heads, groups, n = layer.out_proj.in_features, layer.heads, layer.groups, layer.states
        values, size = (layer.conv1d.out_channels - d) // 2, d // heads
        wide = weights.width(size)
        head = [
            weights.vector(part)
            for part in (-np.exp(numbers(layer.A_log)) * LOG2E, numbers(layer.dt_bias), numbers(layer.D))
        ]
        where = (np.arange(heads)[:, None, None] * n + np.arange(n)) * wide + np.arange(size)[:, None]  # (H, P, N)
        return {
            **convolution(layer.conv1d, (d, values, values), weights, memory, number),
            "state_at": memory.take(STATE.format(number), where, heads * n * wide),
            "channels": d,
            "width": weights.width(d),
            "heads": heads,
            "heads_width": weights.width(heads),
            "head": size,
            "head_width": wide,
            "groups": groups,
            "values_width": weights.width(values),
            "states": n,
            "states_width": weights.width(groups * n),
            **_projections(layer, weights),
            "in_at": weights.product(*linear(layer.in_proj), rows=(d, d, values, values, heads)),
            "head_at": weights.add(*head),
            "norm2_at": weights.add(weights.vector(numbers(layer.norm.weight)), np.array([layer.norm.epsilon])),
            "out_at": weights.product(*linear(layer.out_proj)),
        }

    def scratch(self, layer: Mapping[str, int]) -> int:
        """The projection, the convolution's output, y, B and C before and after their projections; two rows of a head."""
        values, states = layer["values_width"], layer["states_width"]
        return 4 * layer["width"] + 5 * values + layer["heads_width"] + 2 * states + 2 * layer["head_width"] + 1


def _projections(layer: Any, weights: Weights) -> dict[str, int]:
    """Matrices from the values of all groups to the gates of all groups, if the layer is projected."""
    matrices: list[nn.Parameter | None] = [getattr(layer, name) for name in PROJECTIONS]
    if matrices[0] is None or matrices[1] is None:
        return {"projected": 0, "b_at": 0, "c_at": 0}
    b_at, c_at = (
        weights.product(_block_diagonal(numbers(matrix), layer.groups), None)
        for matrix in matrices
        if matrix is not None
    )
    return {"projected": 1, "b_at": b_at, "c_at": c_at}


def _block_diagonal(matrix: np.ndarray, groups: int) -> np.ndarray:
    """(G N', N) -> (G N', G N)"""
    gates, values = matrix.shape[0] // groups, matrix.shape[1]
    out = np.zeros((groups * gates, groups * values))
    for group in range(groups):
        rows = slice(group * gates, (group + 1) * gates)
        out[rows, group * values : (group + 1) * values] = matrix[rows]
    return out
