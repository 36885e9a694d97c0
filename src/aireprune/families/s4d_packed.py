"""Packed rows: how our own format stores S4D layers whose channels keep different numbers of modes.

In memory the modes of a layer are H rows of N. A channel that keeps fewer ends in fillers, modes that are silent
(C = 0) and all alike (`FILLER`). Packed, the rows follow each other without their fillers,

    C (K, 2)    log_A_real (K,)    A_imag (K,)    K = the sum of the rows' lengths

and config.json tells where to part them: {"packed_rows": {"s4_layers.0.kernel": {"width": N, "lengths": [H numbers]}}}.
Fillers come back bit by bit, so a plan made from the model in memory fits the packed file, and the other way round.
Silent modes that are no fillers (masked ones, which have their poles) are stored like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aireprune.arrays import Edit, NamedArrays, Replaced, instead
from aireprune.errors import AireError
from aireprune.families.base import Layer, expect_shape
from aireprune.families.found import Found
from aireprune.families.s4d_parameters import FILLER

PACKED_ROWS = "packed_rows"
WIDEST = 2**14  # modes of a row: a number in a configuration must not claim memory


@dataclass(frozen=True)
class Rows:
    """How the rows of a layer are parted: the longest any of them may be, and how long each is."""

    width: int
    lengths: np.ndarray  # (H,)

    @property
    def ragged(self) -> bool:
        return bool((self.lengths < self.width).any())

    @property
    def there(self) -> np.ndarray:
        """The places that are no fillers. (H, N) of bool"""
        return np.asarray(np.arange(self.width) < self.lengths[:, None])

    def to_dict(self) -> dict[str, Any]:
        return {"width": self.width, "lengths": self.lengths.tolist()}

    @classmethod
    def from_dict(cls, values: Any, layer: str) -> Rows:
        given: Mapping[str, Any] = values if isinstance(values, Mapping) else {}
        width, lengths = given.get("width", 0), given.get("lengths", ())
        whole = type(width) is int and isinstance(lengths, list) and all(type(length) is int for length in lengths)
        if not whole or width > WIDEST or not all(0 <= length <= width for length in lengths):
            raise AireError(
                f"The configuration's {PACKED_ROWS} of {layer} must be a width of at most {WIDEST} and a list of lengths, "
                "whole numbers from 0 to the width. Restore config.json, or save the model again."
            )
        return cls(width, np.array(lengths, int))


def packable(layer: Layer[Any]) -> bool:
    """S4D in the standalone layout, which is that of our own model."""
    return layer.family == "s4d" and layer.options.storage == "standalone"


def unpack(arrays: NamedArrays, config: Mapping[str, Any]) -> Replaced | None:
    """A view of named arrays in which packed rows are filled up again, or None if no layer has packed rows."""
    packed = config.get(PACKED_ROWS) or {}
    if not isinstance(packed, Mapping):
        raise AireError(f"The configuration's {PACKED_ROWS} must name layers; it is a {type(packed).__name__}.")
    new: dict[str, np.ndarray] = {}
    for layer, values in packed.items():
        rows = Rows.from_dict(values, layer)
        new |= {name: _filled(arrays, name, role, rows) for role, name in _names(layer).items()}
    return Replaced(arrays, new) if new else None


def pack(layers: Sequence[Layer[Any]], arrays: NamedArrays) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays that are stored packed, by full name, and the entry of the configuration that goes with them."""
    new: dict[str, np.ndarray] = {}
    entry: dict[str, Any] = {}
    for layer in layers:
        if not packable(layer):
            continue
        names = _names(layer.name)
        values = {role: np.asarray(arrays[name]) for role, name in names.items()}
        rows = find_rows(values)
        if rows.ragged:
            new |= {names[role]: rectangle[rows.there] for role, rectangle in values.items()}
            entry[layer.name] = rows.to_dict()
    return new, {PACKED_ROWS: entry} if entry else {}


def packed_edits(found: Found, edits: Mapping[str, Edit], keep: bool) -> tuple[dict[str, Edit], dict[str, Any]]:
    """Edits of rectangular arrays as edits of what is stored, and the entry of the configuration that goes with them.

    keep: the copy has packed rows where they are shorter; without it, rows that were packed are written out.
    """
    before = found.config.get(PACKED_ROWS) or {}
    layers = [layer for layer in found.layers if packable(layer) and (keep or layer.name in before)]
    names = [name for layer in layers for name in _names(layer.name).values()]
    edited = Replaced(
        found.arrays, {name: edits[name](np.asarray(found.arrays[name])) for name in names if name in edits}
    )
    packed, entry = pack(layers, edited) if keep else ({}, {})
    written = {name: edited[name] for layer in before for name in _names(layer).values()}
    return {**edits, **{name: instead(values) for name, values in (written | packed).items()}}, entry


def find_rows(values: Mapping[str, np.ndarray]) -> Rows:
    """How far the rows of rectangular arrays, by role, go before nothing but fillers follows."""
    width = values["log_A_real"].shape[1]
    filler = np.array(True)
    for role, rectangle in values.items():
        fill = np.asarray(FILLER[role], rectangle.dtype)
        same = (rectangle == fill) & (np.signbit(rectangle) == np.signbit(fill))
        filler = filler & (same.all(axis=2) if role == "C" else same)
    return Rows(width, width - np.logical_and.accumulate(filler[:, ::-1], axis=1).sum(axis=1))


def _filled(arrays: NamedArrays, name: str, role: str, rows: Rows) -> np.ndarray:
    """The rectangular array (H, N), or (H, N, 2) for C, of packed rows."""
    why = f"the configuration's {PACKED_ROWS} say so"
    tail = (2,) if role == "C" else ()
    expect_shape(arrays.shapes, name, (int(rows.lengths.sum()), *tail), why)
    packed = np.asarray(arrays[name])
    out = np.full((len(rows.lengths), rows.width, *tail), FILLER[role], packed.dtype)
    out[rows.there] = packed
    return out


def _names(layer: str) -> dict[str, str]:
    """Role -> full name of the arrays that are packed."""
    return {role: f"{layer}.{role}" if layer else role for role in FILLER}
