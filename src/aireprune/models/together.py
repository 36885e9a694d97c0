"""Pruned copies of one model on the same inputs: whatever they have in common at the beginning runs once.

The copies are a tree. Its root is the encoder, a node is a layer that several of them have, weight for weight, after the
same layers before it; copies that are equal altogether share a leaf. Every operation is the one that `model(x, lengths)`
runs, so outputs are the same to the last bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from aireprune.kernels.s5_dispatch import fused_block
from aireprune.models.lru import LRUModel
from aireprune.models.s4d import S4DModel
from aireprune.models.s5 import S5Model

Run = Callable[[Tensor, Tensor | None, bool], Tensor]  # (what enters, lengths, whether it may be overwritten)


@dataclass(frozen=True)
class Step:
    """A part of a model. mark: a digest of the classes, sizes and weights it consists of."""

    mark: bytes
    run: Run


class Together:
    """models: copies of one model that differ in nothing but tensors and sizes. together(x, lengths) -> their outputs."""

    def __init__(self, models: Sequence[nn.Module]):
        self._steps = [_steps(model) for model in models]

    def __call__(self, x: Tensor, lengths: Tensor | None) -> list[Tensor]:
        found: dict[int, Tensor] = {}
        self._descend(range(len(self._steps)), 0, (x, lengths), found)
        return [found[number] for number in range(len(self._steps))]

    def _descend(
        self, members: Iterable[int], depth: int, entering: tuple[Tensor, Tensor | None], found: dict[int, Tensor]
    ) -> None:
        """Run step `depth` of the members, all of which had the same steps before; found: outputs by number."""
        branches: dict[bytes, list[int]] = {}
        for number in members:
            branches.setdefault(self._steps[number][depth].mark, []).append(number)
        z, lengths = entering
        for place, some in enumerate(branches.values(), 1):
            steps = self._steps[some[0]]
            out = steps[depth].run(z, lengths, depth > 0 and place == len(branches))
            if depth + 1 < len(steps):
                self._descend(some, depth + 1, (out, lengths), found)
            else:
                found.update(dict.fromkeys(some, out))


def _steps(model: nn.Module) -> list[Step]:
    if isinstance(model, S4DModel) and _is_plain(model, S4DModel):
        blocks = [
            Step(_mark(layer, norm), partial(_block_of_s4d, model, number))
            for number, (layer, norm) in enumerate(zip(model.s4_layers, model.norms, strict=True))
        ]
    elif isinstance(model, S5Model | LRUModel) and _is_plain(model, S5Model, LRUModel):
        blocks = [Step(_mark(block), partial(_diagonal_block, block)) for block in model.layers]
    else:
        return [Step(_mark(model), partial(_whole, model))]
    first = Step(_mark(model.encoder), lambda x, lengths, reuse: model.encode(x))
    return [first, *blocks, Step(_mark(model.decoder), partial(_head, model))]


def _is_plain(model: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Whether nobody changed or watches what the model calls."""
    return type(model) in kinds and not any(
        module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module) for module in model.modules()
    )


def _diagonal_block(block: nn.Module, z: Tensor, lengths: Tensor | None, reuse: bool) -> Tensor:
    fused = fused_block(block, z, reuse)
    out: Tensor = block(z) if fused is None else fused
    return out


def _block_of_s4d(model: S4DModel, number: int, z: Tensor, lengths: Tensor | None, reuse: bool) -> Tensor:
    return model.block(number, z)


def _head(model: S4DModel | S5Model | LRUModel, z: Tensor, lengths: Tensor | None, reuse: bool) -> Tensor:
    logits: Tensor = model.decoder(model.pool(z, lengths))
    return logits


def _whole(model: nn.Module, x: Tensor, lengths: Tensor | None, reuse: bool) -> Tensor:
    out = model(x) if lengths is None else model(x, lengths)
    logits: Tensor = getattr(out, "logits", out)  # transformers models return more than logits
    return logits


def _mark(*parts: nn.Module) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(repr(part).encode())
        for name, tensor in part.state_dict().items():
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.digest()
