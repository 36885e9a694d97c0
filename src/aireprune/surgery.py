"""From a plan to edits of named arrays: mask, remove, or remove and pad. Pure NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from aireprune.families import FAMILIES
from aireprune.families.base import Cut, Layer
from aireprune.planning import Plan

Edit = Callable[[np.ndarray], np.ndarray]


def edits(layers: Sequence[Layer], plan: Plan, mask: bool = False, sizes: Sequence[int] | None = None) -> dict[str, Edit]:
    """Full array name -> what to do with it. Arrays that keep their values are not named.

    `sizes` pads each layer with silent states up to that many after the removal.
    """
    todo: dict[str, Edit] = {}
    for number, (layer, planned) in enumerate(zip(layers, plan.layers, strict=True)):
        kept = np.array(planned.kept, int)
        if len(kept) == layer.states:
            continue
        for name, cut in FAMILIES[layer.family].cuts(layer).items():
            todo[name] = _edit(cut, kept, mask, None if sizes is None else sizes[number])
    return todo


def _edit(cut: Cut, kept: np.ndarray, mask: bool, size: int | None) -> Edit:
    return partial(cut.mask, kept=kept) if mask else partial(cut.remove, kept=kept, size=size)
