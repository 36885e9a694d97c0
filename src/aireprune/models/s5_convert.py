"""From named arrays of any S5 layout to our model: names, shapes, and what they reveal of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aireprune.arrays import Shape
from aireprune.errors import AireError
from aireprune.families import Found
from aireprune.models.flax_layout import Transposed, filled, settled, surroundings, torch_name
from aireprune.models.s5 import S5Model
from aireprune.models.s5_config import S5Config

NEEDED = ("activation", "conj_sym", "discretization", "prenorm", "mode")


def infer_config(found: Found, shapes: Mapping[str, Shape]) -> S5Config:
    """The configuration that came along, completed by what the tensors reveal and checked against it.

    shapes: of the tensors, under our names and in torch's orientation.
    """
    revealed = _revealed(shapes, found.name)
    symmetries = {layer.options.conj_sym for layer in found.layers}
    if symmetries <= {True} or symmetries <= {False}:
        revealed["conj_sym"] = symmetries.pop()
    known = settled(found.config, revealed, NEEDED, found.name)
    per_mode = 2 if known["conj_sym"] else 1
    known["n"] = per_mode * max((*known["states"], 1))
    if len(set(known["states"])) == 1 and known["states"][0] > 0:
        known["states"] = None
    return S5Config.from_dict(known, found.name)


def _revealed(shapes: Mapping[str, Shape], where: str) -> dict[str, Any]:
    revealed = surroundings(shapes, "S5", where)
    states = tuple(_poles(shapes, number)[0] for number in range(revealed["layers"]))
    two_c = "layers.0.seq.C1" in shapes
    widest = int(np.argmax(states))
    one_c = not two_c and states[widest] > 0 and shapes[f"layers.{widest}.seq.C"][1] == 2 * states[widest]
    revealed |= {"states": states, "bidirectional": two_c or one_c}
    if one_c:
        revealed["C_init"] = "complex_normal"
    return revealed


def _poles(shapes: Mapping[str, Shape], number: int) -> Shape:
    for leaf in ("Lambda_re", "Lambda"):
        if f"layers.{number}.seq.{leaf}" in shapes:
            return shapes[f"layers.{number}.seq.{leaf}"]
    raise AireError(f"Tensor layers.{number}.seq.Lambda_re is missing: the S5 layer needs it.")


def build_s5(found: Found) -> S5Model:
    """The model with these weights, in evaluation mode."""
    arrays = Transposed(found.arrays)
    model = S5Model(infer_config(found, {torch_name(name): shape for name, shape in arrays.shapes.items()}))
    values = {torch_name(name): np.asarray(arrays[name]) for name in arrays.shapes}
    return filled(
        model, {key: array for name, value in values.items() for key, array in _official(name, value)}, found.name
    )


def _official(name: str, value: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """One array of either layout as arrays of the official one: complex numbers as (re, im), log_step as a column."""
    stem, _, leaf = name.rpartition(".")
    if leaf == "Lambda" and stem.endswith("seq"):
        return [(f"{stem}.Lambda_re", value.real.copy()), (f"{stem}.Lambda_im", value.imag.copy())]
    if np.iscomplexobj(value):
        value = np.stack([value.real, value.imag], axis=-1)
    if leaf == "log_step" and value.ndim == 1:
        value = value[:, None]
    return [(name, value)]
