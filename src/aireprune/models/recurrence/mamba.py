"""Mamba step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aireprune.kernels.numba.constants import LOG2E
from aireprune.kernels.numba.step_codes import MAMBA, ROWS
from aireprune.kernels.step import Weights
from aireprune.models.recurrence.family import Memory, linear, numbers
from aireprune.models.recurrence.selective import STATE, SelectiveFamily, convolution


class MambaFamily(SelectiveFamily):
    record = MAMBA

    def layer(self, layer: Any, weights: Weights, memory: Memory, number: int) -> dict[str, int]:
        poles = -np.exp(numbers(layer.A_log)).T  # (N, D)
        n, d = poles.shape
        rank, (x_proj, _), (dt_proj, dt_bias) = layer.rank, linear(layer.x_proj), linear(layer.dt_proj)
        assert dt_bias is not None
        width = weights.width(d)
        return {
            **convolution(layer.conv1d, (d,), weights, memory, number),
            "state_at": memory.take(STATE.format(number), width * np.arange(n) + np.arange(d)[:, None], n * width),
            "channels": width,
            "rank": weights.width(rank),
            "states": n,
            "gates_width": weights.width(2 * n),
            "in_at": weights.product(*linear(layer.in_proj), rows=(d, d)),
            "x_at": weights.product(x_proj[:rank], None),
            "gates_at": weights.product(x_proj[rank:], None),
            "dt_at": weights.product(dt_proj, None),
            "dt_bias_at": weights.add(weights.vector(dt_bias)),
            "poles_at": weights.add(weights.vector(poles * LOG2E)),
            "skip_at": weights.add(weights.vector(numbers(layer.D))),
            "out_at": weights.product(*linear(layer.out_proj)),
        }

    def scratch(self, layer: Mapping[str, int]) -> int:
        """Both halves of the projection, x, dt, its low-rank form, B and C; and the steps of one row."""
        channels = layer["channels"]
        return 4 * channels + layer["rank"] + layer["gates_width"] + -(-channels // ROWS)
