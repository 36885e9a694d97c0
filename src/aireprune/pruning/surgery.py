"""From a plan to edits of named arrays: mask, remove, or remove and pad. Pure NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from aireprune.families import FAMILIES
from aireprune.families.base import Layer
from aireprune.files.base import Edit
from aireprune.pruning.plan import Plan


def edits(
    layers: Sequence[Layer], plan: Plan, mask: bool = False, sizes: Sequence[int] | None = None
) -> dict[str, Edit]:
    """Full array name -> what to do with it. Arrays that keep their values are not named.

    `sizes` pads each layer with silent states up to that many (per group or channel) after the removal.
    """
    todo: dict[str, Edit] = {}
    for number, (layer, planned) in enumerate(zip(layers, plan.layers, strict=True)):
        kept = np.array(planned.kept, int)
        if len(kept) == layer.states:
            continue
        for name, cut in FAMILIES[layer.family].cuts(layer).items():
            if mask:
                todo[name] = partial(cut.mask, kept=kept)
            else:
                todo[name] = partial(cut.remove, kept=kept, size=_size(layer, kept, sizes, number))
    return todo


def _size(layer: Layer, kept: np.ndarray, sizes: Sequence[int] | None, number: int) -> int | None:
    """What to fill the layer up to: the size asked for, or what its family needs to run; None if nothing."""
    if sizes is not None:
        return sizes[number]
    return FAMILIES[layer.family].stored(layer, kept) if not len(kept) else None


def stored_sizes(layers: Sequence[Layer], plan: Plan, mask: bool = False) -> list[int]:
    """States (per group or channel) that each layer's arrays hold afterwards; a padded layout has one size for all."""
    sizes = []
    for layer, planned in zip(layers, plan.layers, strict=True):
        kept = np.arange(layer.states) if mask else np.array(planned.kept, int)
        sizes.append(FAMILIES[layer.family].stored(layer, kept))
    return [max(sizes, default=0)] * len(sizes) if plan.layout == "padded" and not mask else sizes


def padding(layers: Sequence[Layer], plan: Plan) -> list[int] | None:
    """The `sizes` that `edits` needs for the plan's layout."""
    return stored_sizes(layers, plan) if plan.layout == "padded" else None
