"""Which forwards of the modules of `aireprune.models.diagonal` one operator can replace, and what it is given.

Every function returns None where the module's own equations have to run: off the CPU, where a part has been replaced or
has a hook, which sees what goes in or comes out and may keep it, and, but for `trained_block`, where a gradient is wanted
or a part is in training. `trained_block` is for gradients only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from aireprune.kernels.inputs import forward_mode, is_ordinary
from aireprune.kernels.s5 import s5_block
from aireprune.kernels.s5_stack import Words, block_arguments, fits, make_ready, run_ready
from aireprune.kernels.s5_training import Given, s5_training_block
from aireprune.kernels.stock import is_stock, is_trained_here, is_unwatched, kinds_of, wants_gradient

SLICE = 24 << 20  # bytes of activations that pass through all layers at a time; memory used again faults no pages


def fused_layer(layer: Any, u: Tensor) -> Tensor | None:
    """An S5 or LRU layer: u (b, L, h) -> y (b, L, h)."""
    return (
        s5_block(u, **layer.operator_arguments())
        if kinds_of(layer) is not None and _is_cpu_inference(u, layer)
        else None
    )


def fused_block(block: Any, z: Tensor, reuse: bool = False) -> Tensor | None:
    """An S5 or LRU block: z (b, L, h) -> (b, L, h). reuse: the result may take the place of z."""
    return _run_block(block, z, reuse) if _is_whole(block) and _is_cpu_inference(z, block) else None


def fused_features(model: Any, x: Tensor, lengths: Tensor | None) -> Tensor | None:
    """What the head of the model takes: x (b, L, d_input) or tokens (b, L) -> (b, h), or (b, L, h) in mode tokens.

    Nobody sees what passes between the layers, so they overwrite it, and a batch comes in slices that fit SLICE.
    """
    if not is_unseen(model, x):
        return None
    size = x.shape[0] * x.shape[1] * model.config.h * model.encoder.weight.element_size()
    slices = 1 if model.config.mode == "tokens" else min(len(x), -(-size // SLICE))
    if slices < 2:
        return _features(model, x, lengths)
    some_lengths = [None] * slices if lengths is None else lengths.tensor_split(slices)
    return torch.cat(
        [_features(model, part, some) for part, some in zip(x.tensor_split(slices), some_lengths, strict=True)]
    )


def trained_block(block: Any, z: Tensor) -> Tensor | None:
    """An S5 or LRU block that learns, with a batch norm before the layer and a half_glu2 or full_glu gate: z (b, L, h) ->
    (b, L, h). The norm takes the moments of the batch or, in evaluation mode, those that it remembers."""
    if not (is_trained_here(z, block) and _is_trained_whole(block)) or z.shape[0] * z.shape[1] == 1:
        return None  # one step alone has no variance
    norm, layer = block.norm, block.seq
    factors = [block.drop.factor(z) for _ in range(2)]
    first, second = (z.new_ones(len(z), z.shape[2]) if factor is None else factor[:, 0] for factor in factors)
    moments = torch.empty(2, z.shape[2], dtype=z.dtype)
    if not norm.training:
        moments[0], moments[1] = norm.running_mean, norm.running_var
    given = Given(
        eps=norm.eps, first=first, second=second, mean=moments[0], variance=moments[1], frozen=not norm.training
    )
    lam, b, c = layer.in_real_numbers()
    system = [part.to(z.dtype) for part in (lam.real, lam.imag, b, c)]
    gates = _gates(block)
    gate = torch.cat([each.weight for each in gates]), torch.cat([each.bias for each in gates])
    out = s5_training_block(z, given, (norm.weight, norm.bias), system, layer.D, gate)
    if norm.training:
        _remember(norm, given, z.shape[0] * z.shape[1])
    return out


@torch.no_grad()
def _remember(norm: nn.BatchNorm1d, given: Given, count: int) -> None:
    """The running statistics of a batch norm, as torch updates them; their variance is the unbiased one."""
    assert norm.momentum is not None
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    norm.running_mean.lerp_(given.mean, norm.momentum)
    norm.running_var.lerp_(given.variance * (count / (count - 1)), norm.momentum)
    norm.num_batches_tracked.add_(1)


def _is_trained_whole(block: Any) -> bool:
    """Whether every part is stock, without hooks on gradients either, and what the operator computes is what they are."""
    norm, kinds = block.norm, kinds_of(block)
    return (
        kinds is not None
        and all(is_unwatched(part, kinds.get(name, ())) for name, part in block.named_children())
        and block.activation in ("half_glu2", "full_glu")
        and block.prenorm
        and block.seq.modes > 0
        and isinstance(norm, nn.BatchNorm1d)
        and norm.weight is not None
        and norm.running_mean is not None
        and not (norm.training and norm.momentum is None)
        and all(gate.bias is not None for gate in _gates(block))
        and all(p.dtype == norm.weight.dtype for p in block.parameters())
    )


def _is_cpu_inference(z: Tensor, module: nn.Module) -> bool:
    here = z.device.type == "cpu" and z.is_floating_point()
    return here and not wants_gradient(z, module) and not forward_mode()


def _gates(block: Any) -> list[nn.Linear]:
    return [getattr(block, name) for name in ("out1", "out2") if hasattr(block, name)]


def _is_whole(block: Any) -> bool:
    """Whether every part of the block is stock, in evaluation mode, and has all the weights that the operator takes."""
    norm, kinds = block.norm, kinds_of(block)
    return (
        kinds is not None
        and all(is_stock(part, kinds.get(name, ())) and not part.training for name, part in block.named_children())
        and norm.weight is not None
        and norm.bias is not None
        and getattr(norm, "running_var", norm.weight) is not None
        and all(gate.bias is not None for gate in _gates(block))
    )


def is_unseen(model: Any, x: Tensor) -> bool:
    """Whether encoder and blocks are stock, nobody watches what passes between them and no gradient is wanted."""
    kinds = kinds_of(model)
    return (
        kinds is not None
        and is_ordinary(x)
        and not wants_gradient(x, model)
        and is_stock(model.encoder, kinds["encoder"])
        and _is_cpu_inference(model.encoder.weight, model)
        and all(is_stock(block, kinds["layers"]) and _is_whole(block) for block in model.layers)
    )


def words(encoder: nn.Linear, x: Tensor) -> Words | None:
    """Tokens (b, L) on the CPU and the table that they are looked up in; None if these are none, or not in the table."""
    if x.dtype not in (torch.int64, torch.int32, torch.uint8) or x.device.type != "cpu" or not x.numel():
        return None
    lowest, highest = x.aminmax()
    if lowest < 0 or highest >= encoder.weight.shape[1]:
        return None
    return Words((encoder.weight.T + encoder.bias).contiguous(), x.long())


def _features(model: Any, x: Tensor, lengths: Tensor | None) -> Tensor:
    """The features of a slice of the batch; all layers work in the same memory, short sequences in cache."""
    known = words(model.encoder, x)
    entering: Tensor | Words = model.encode(x) if known is None else known
    if fits(model.layers, entering):
        counted = None if model.config.mode == "tokens" else lengths
        z = run_ready(make_ready(model.layers), entering, counted)
        features: Tensor = model.pool(z, lengths, cleared=counted is not None)
        return features
    z = entering.looked_up() if isinstance(entering, Words) else entering
    for block in model.layers:
        z = _run_block(block, z, reuse=True)
    pooled: Tensor = model.pool(z, lengths)
    return pooled


def _run_block(block: Any, z: Tensor, reuse: bool) -> Tensor:
    """The operator on the weights as they are at this call."""
    return s5_block(z, **block_arguments(block), reuse=reuse)
