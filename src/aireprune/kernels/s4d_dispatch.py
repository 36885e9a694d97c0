"""Which blocks of `aireprune.models.s4d` learn with one hand-written step behind their scan, and what it is given."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from aireprune.kernels.s4d_mixing import Given, s4d_mixing
from aireprune.kernels.stock import is_trained_here, is_unwatched, kinds_of


def trained_block(model: Any, number: int, z: Tensor) -> Tensor | None:
    """Block `number` of an S4D model that learns, with its norm, dropouts and residual: z (b, L, h) -> (b, L, h).

    None where the model's own equations have to run: no gradient is wanted, off the CPU, in another precision, or where a
    part has been replaced or is watched.
    """
    layer, norm, kinds = model.s4_layers[number], model.norms[number], kinds_of(model)
    if kinds is None or not is_trained_here(z, layer):
        return None
    parts = [("layer", layer), ("norm", norm), ("drop", model.drop), *layer.named_children()]
    parts += [("mixing", part) for part in layer.output_linear]
    stock = all(is_unwatched(part, kinds.get(name, ())) for name, part in parts)
    if not stock or len(layer.output_linear) != 1 or not _is_whole(layer, norm, z):
        return None
    out = layer.ssm(norm(z) if model.config.prenorm else z)
    if out.dtype != z.dtype:
        return None
    factors = [drop.factor(z) for drop in (layer.drop, model.drop)]
    first, second = (torch.ones_like(z[:, 0]) if factor is None else factor[:, 0] for factor in factors)
    mixing = layer.output_linear[0]
    return s4d_mixing(
        out,
        z,
        Given(first=first.detach(), second=second.detach(), eps=norm.eps),
        (mixing.weight[:, :, 0], mixing.bias),
        None if model.config.prenorm else (norm.weight, norm.bias),
    )


def _is_whole(layer: Any, norm: nn.LayerNorm, z: Tensor) -> bool:
    """Whether the layer has all the weights that the step takes, in the precision of z."""
    weights = (layer.output_linear[0].weight, layer.output_linear[0].bias, norm.weight, norm.bias)
    return all(w is not None and w.dtype == z.dtype for w in weights) and norm.normalized_shape == (z.shape[2],)
