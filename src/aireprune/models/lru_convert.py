"""From named arrays of an LRU, minimal-LRU's Flax tree or ours, to our model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aireprune.arrays import Shape
from aireprune.errors import AireError
from aireprune.families import Found
from aireprune.models.flax_layout import Transposed, filled, settled, surroundings, torch_name
from aireprune.models.lru import LRUModel
from aireprune.models.lru_config import LRUConfig

NEEDED = ("activation", "prenorm", "mode")


def infer_config(found: Found, shapes: Mapping[str, Shape]) -> LRUConfig:
    """The configuration that came along, completed by what the tensors reveal and checked against it.

    shapes: of the tensors, under our names and in torch's orientation.
    """
    revealed = surroundings(shapes, "LRU", found.name)
    for number in range(revealed["layers"]):
        for leaf in ("nu_log", "C_re"):
            if f"layers.{number}.seq.{leaf}" not in shapes:
                raise AireError(
                    f"{found.name}: tensor layers.{number}.seq.{leaf} is missing, which our LRU model needs (B and C as "
                    "B_re, B_im, C_re, C_im). The file itself can be inspected, scored and pruned."
                )
    states = tuple(shapes[f"layers.{number}.seq.nu_log"][0] for number in range(revealed["layers"]))
    revealed["bidirectional"] = any(layer.options.directions == 2 for layer in found.layers)
    known = settled(found.config, revealed, NEEDED, found.name)
    varied = len(set(states)) > 1 or states[0] == 0
    return LRUConfig.from_dict({**known, "n": max((*states, 1)), "states": states if varied else None}, found.name)


def build_lru(found: Found) -> LRUModel:
    """The model with these weights, in evaluation mode."""
    arrays = Transposed(found.arrays)
    model = LRUModel(infer_config(found, {torch_name(name): shape for name, shape in arrays.shapes.items()}))
    return filled(model, {torch_name(name): np.asarray(arrays[name]) for name in arrays.shapes}, found.name)
