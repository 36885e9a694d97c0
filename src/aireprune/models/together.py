"""Pruned copies of one model on the same inputs: whatever they have in common at the beginning runs once.

The copies are a tree. Its root is the encoder, a node is a layer that several of them have, weight for weight, after the
same layers before it; copies that are equal altogether share a leaf. Where a branch has no more forks, its layers run as
one (`aireprune.kernels.s5_stack`), with weights that were made ready for all batches. Every number is the one that
`model(x, lengths)` computes, to the last bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from aireprune.kernels.s5_dispatch import fused_block, is_unseen, words
from aireprune.kernels.s5_stack import Ready, Words, fits, make_ready, run_ready
from aireprune.models.lru import LRUModel
from aireprune.models.s4d import S4DModel
from aireprune.models.s5 import S5Model


class Cleared(NamedTuple):
    """What left the last block, (b, L, h), with zeros where a sequence has ended."""

    z: Tensor


Given = Tensor | Words | Cleared
Run = Callable[[Given, Tensor | None, bool], Given]  # (what enters, lengths, whether it may be overwritten)


@dataclass(frozen=True)
class Step:
    """A part of a model. mark: a digest of the classes, sizes and weights it consists of."""

    mark: bytes
    run: Run


class Together:
    """models: copies of one model that differ in nothing but tensors and sizes. together(x, lengths) -> their outputs.

    Nobody may change the models between two calls.
    """

    def __init__(self, models: Sequence[nn.Module]):
        self._models, self._steps = models, [_steps(model) for model in models]
        self._ready: dict[tuple[int, int, int, int], Ready | None] = {}

    def __call__(self, x: Tensor, lengths: Tensor | None) -> list[Tensor]:
        found: dict[int, Tensor] = {}
        self._descend(range(len(self._steps)), 0, (x, lengths), found)
        return [found[number] for number in range(len(self._steps))]

    def _descend(
        self, members: Iterable[int], depth: int, entering: tuple[Given, Tensor | None], found: dict[int, Tensor]
    ) -> None:
        """Run step `depth` of the members, all of which had the same steps before; found: outputs by number."""
        branches: dict[bytes, list[int]] = {}
        for number in members:
            branches.setdefault(self._steps[number][depth].mark, []).append(number)
        z, lengths = entering
        for place, some in enumerate(branches.values(), 1):
            steps, until = self._steps[some[0]], self._fork(some, depth)
            after: Given | None = self._blocks(some[0], (depth, until), z, lengths)
            if after is None:
                after, until = steps[depth].run(z, lengths, depth > 0 and place == len(branches)), depth + 1
            if until < len(steps):
                self._descend(some, until, (after, lengths), found)
            else:
                assert isinstance(after, Tensor)
                found.update(dict.fromkeys(some, after))

    def _fork(self, some: Sequence[int], depth: int) -> int:
        """The step before the head, at most, up to which these do the same from `depth` on."""
        until, last = depth + 1, len(self._steps[some[0]]) - 1
        while until < last and len({self._steps[number][until].mark for number in some}) == 1:
            until += 1
        return until

    def _blocks(self, number: int, steps: tuple[int, int], z: Given, lengths: Tensor | None) -> Tensor | Cleared | None:
        """Steps from one to before another of a model, all of them blocks, in one go; None where the kernel cannot."""
        (depth, until), model = steps, self._models[number]
        if not (isinstance(model, S5Model | LRUModel) and depth > 0 and until < len(self._steps[number])):
            return None
        if isinstance(z, Cleared):
            return None
        key = (number, depth, until, len(z.codes if isinstance(z, Words) else z))  # once for all batches of a size
        if key not in self._ready:
            blocks = list(model.layers[depth - 1 : until - 1])
            can = is_unseen(model, z.table if isinstance(z, Words) else z) and fits(blocks, z)
            self._ready[key] = make_ready(blocks) if can else None
        ready = self._ready[key]
        if ready is None:
            return None
        if until == len(self._steps[number]) - 1 and lengths is not None and model.config.mode != "tokens":
            return Cleared(run_ready(ready, z, lengths))
        return run_ready(ready, z)


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
    first = Step(_mark(model.encoder), partial(_encode, model))
    return [first, *blocks, Step(_mark(model.decoder), partial(_head, model))]


def _is_plain(model: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Whether nobody changed or watches what the model calls."""
    return type(model) in kinds and not any(
        module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module) for module in model.modules()
    )


def _encode(model: S4DModel | S5Model | LRUModel, x: Given, lengths: Tensor | None, reuse: bool) -> Given:
    """What enters the first block; tokens of models that can look them up themselves stay tokens."""
    tokens = _tensor(x)
    known = None if isinstance(model, S4DModel) or not is_unseen(model, tokens) else words(model.encoder, tokens)
    return model.encode(tokens) if known is None else known


def _diagonal_block(block: nn.Module, z: Given, lengths: Tensor | None, reuse: bool) -> Tensor:
    z = _tensor(z)
    fused = fused_block(block, z, reuse)
    out: Tensor = block(z) if fused is None else fused
    return out


def _block_of_s4d(model: S4DModel, number: int, z: Given, lengths: Tensor | None, reuse: bool) -> Tensor:
    return model.block(number, _tensor(z))


def _head(model: S4DModel | S5Model | LRUModel, z: Given, lengths: Tensor | None, reuse: bool) -> Tensor:
    known = isinstance(z, Cleared) and not isinstance(model, S4DModel)
    logits: Tensor = model.decoder(model.pool(_tensor(z), lengths, **({"cleared": True} if known else {})))
    return logits


def _tensor(z: Given) -> Tensor:
    return z.looked_up() if isinstance(z, Words) else z.z if isinstance(z, Cleared) else z


def _whole(model: nn.Module, x: Given, lengths: Tensor | None, reuse: bool) -> Tensor:
    out = model(_tensor(x)) if lengths is None else model(_tensor(x), lengths)
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
