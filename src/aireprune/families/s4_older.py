"""The names that earlier versions of the S4 repository gave the tensors of its kernels, as a view under today's names.

today                       versions 2 and 3, under …kernel.kernel.
A_real (S, N)               inv_w_real or log_w_real (S4), inv_A_real (S4D)
A_imag (S, N)               w_imag (S4), A_imag (S4D), with the opposite sign: A = -f(A_real) + i w_imag
inv_dt (H, 1)               log_dt (H,)
l_kernel ()                 L ()
B (1, S, N, 2)              the same; of S4D (S, N, 2)
C (o, H, N, 2), P           the same
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aireprune.arrays import Edit, NamedArrays, Shape
from aireprune.errors import AireError
from aireprune.families.base import anchored

REAL_PARTS = ("inv_w_real", "log_w_real", "inv_A_real")
ANCHORS = tuple((real, "log_dt", "C") for real in REAL_PARTS)


@dataclass(frozen=True)
class Name:
    """A tensor's name in the file, and its values under today's name and back."""

    stored: str
    forward: Callable[[np.ndarray], np.ndarray] = np.asarray
    back: Callable[[np.ndarray], np.ndarray] = np.asarray


def _first(values: np.ndarray) -> np.ndarray:
    return np.asarray(values[0])


def _row(values: np.ndarray) -> np.ndarray:
    return np.asarray(values[None])


def _column(values: np.ndarray) -> np.ndarray:
    return np.asarray(values[..., None])


def _out_of_column(values: np.ndarray) -> np.ndarray:
    return np.asarray(values[..., 0])


class Renamed:
    """Named arrays in which kernels of earlier versions appear under today's names; all else shows through."""

    def __init__(self, arrays: NamedArrays, names: Mapping[str, Name]):
        self._arrays, self._names = arrays, names
        hidden = {name.stored for name in names.values()}
        shapes = {name: shape for name, shape in arrays.shapes.items() if name not in hidden}
        for today, name in names.items():
            shapes[today] = name.forward(np.broadcast_to(np.float32(0), arrays.shapes[name.stored])).shape
        self.shapes: Mapping[str, Shape] = shapes

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._names:
            return self._names[name].forward(self._arrays[self._names[name].stored])
        return self._arrays[name]

    def edits(self, edits: Mapping[str, Edit]) -> dict[str, Edit]:
        """Edits of this view as edits of the arrays behind it."""

        def through(name: Name, edit: Edit) -> Edit:
            return lambda old: name.back(edit(name.forward(old)))

        return {
            self._names[key].stored if key in self._names else key: through(self._names[key], edit)
            if key in self._names
            else edit
            for key, edit in edits.items()
        }


def under_todays_names(arrays: NamedArrays, config: Mapping[str, Any]) -> Renamed | None:
    """The view, or None if there are no kernels of earlier versions."""
    names: dict[str, Name] = {}
    for prefix in anchored(arrays.shapes, *ANCHORS):
        names |= _kernel(arrays.shapes, prefix, config)
    return Renamed(arrays, names) if names else None


def _kernel(shapes: Mapping[str, Shape], prefix: str, config: Mapping[str, Any]) -> dict[str, Name]:
    real = next(name for name in REAL_PARTS if prefix + name in shapes)
    imaginary = "w_imag" if prefix + "w_imag" in shapes else "A_imag"
    for name in (imaginary, "B"):
        if prefix + name not in shapes:
            raise AireError(f"Tensor {prefix}{name} is missing: the S4 layer {prefix.rstrip('.')} needs it.")
    if prefix + "P" not in shapes and "disc" not in config:
        raise AireError(
            f"Layer {prefix.rstrip('.')} is S4D as earlier versions of the S4 repository store it, and the file does not "
            "say how it is discretised. Say so with config= and disc 'bilinear' (the default of that code) or 'zoh'."
        )
    names = {
        "A_real": Name(prefix + real),
        "A_imag": Name(prefix + imaginary, np.negative, np.negative),
        "inv_dt": Name(prefix + "log_dt", _column, _out_of_column),
    }
    if len(shapes[prefix + "B"]) == 3:
        names["B"] = Name(prefix + "B", _row, _first)
    if shapes.get(prefix + "L") == ():
        names["l_kernel"] = Name(prefix + "L")
    return {prefix + role: name for role, name in names.items()}
