"""Mixers of transformers' Mamba and Mamba-2 as the kernels of decoding take them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from aireprune.families.mamba2 import PROJECTIONS
from aireprune.kernels.decode import DecodeWeights
from aireprune.kernels.numba.constants import LOG2E
from aireprune.models.accelerate import is_head_mixer
from aireprune.models.projection import is_projected


def state_shapes(mixer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What a layer remembers: the last inputs of its convolution, and its state."""
    channels, _, taps = mixer.conv1d.weight.shape
    if is_head_mixer(mixer):
        return (taps - 1, channels), (mixer.num_heads, mixer.head_dim, _states(mixer))
    return (taps - 1, channels), (mixer.A_log.shape[1], channels)


def mamba_layer(mixer: Any, weights: DecodeWeights) -> dict[str, int]:
    """The fields of a Mamba layer's record, but for its norm and its places in the memory."""
    channels, states = mixer.A_log.shape
    poles = -torch.exp(mixer.A_log.detach().float()) * LOG2E
    return {
        **weights.matrix("inner", mixer.in_proj.weight),
        **weights.matrix("x", mixer.x_proj.weight),
        **weights.matrix("outer", mixer.out_proj.weight),
        "channels": channels,
        "taps": mixer.conv1d.weight.shape[-1],
        "rank": mixer.dt_proj.weight.shape[1],
        "states": states,
        "inner_bias_at": weights.add(_bias(mixer.in_proj)),
        "conv_at": weights.add(mixer.conv1d.weight[:, 0].T, _bias(mixer.conv1d)),
        "dt_at": weights.add(mixer.dt_proj.weight.T),
        "dt_bias_at": weights.add(_bias(mixer.dt_proj)),
        "poles_at": weights.add(poles.T),
        "skip_at": weights.add(mixer.D),
        "outer_bias_at": weights.add(_bias(mixer.out_proj)),
    }


def mamba2_layer(mixer: Any, weights: DecodeWeights) -> dict[str, int]:
    """The same of a Mamba-2 layer."""
    channels, projected = mixer.intermediate_size, is_projected(mixer)
    poles = -torch.exp(mixer.A_log.detach().float()) * LOG2E
    b_at, c_at = (weights.add(getattr(mixer, name)) if projected else 0 for name in PROJECTIONS)
    return {
        **weights.matrix("inner", mixer.in_proj.weight),
        **weights.matrix("outer", mixer.out_proj.weight),
        "channels": channels,
        "taps": mixer.conv1d.weight.shape[-1],
        "values": (mixer.conv_dim - channels) // 2,
        "heads": mixer.num_heads,
        "head": mixer.head_dim,
        "groups": mixer.n_groups,
        "states": _states(mixer),
        "norm_groups": channels // mixer.norm.group_size,
        "projected": int(projected),
        "b_at": b_at,
        "c_at": c_at,
        "inner_bias_at": weights.add(_bias(mixer.in_proj)),
        "conv_at": weights.add(mixer.conv1d.weight[:, 0].T, _bias(mixer.conv1d)),
        "head_at": weights.add(torch.cat([poles, mixer.dt_bias.detach().float(), mixer.D.detach().float()])),
        "norm2_at": weights.add(mixer.norm.weight, mixer.norm.variance_epsilon),
        "outer_bias_at": weights.add(_bias(mixer.out_proj)),
    }


def _states(mixer: Any) -> int:
    """N of a group: of a projected layer, what its projections make."""
    if is_projected(mixer):
        return int(getattr(mixer, PROJECTIONS[0]).shape[0]) // int(mixer.n_groups)
    return int(mixer.conv_dim - mixer.intermediate_size) // (2 * int(mixer.n_groups))


def _bias(module: nn.Linear | nn.Conv1d) -> Tensor:
    """The bias, or zeros in its place."""
    return module.weight.new_zeros(module.weight.shape[0]) if module.bias is None else module.bias
