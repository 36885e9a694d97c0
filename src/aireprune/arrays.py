"""Arrays by name, and edits of them: what a checkpoint on disk and a module in memory have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

Shape = tuple[int, ...]
Edit = Callable[[np.ndarray], np.ndarray]  # the old values of an array -> the new ones


class NamedArrays(Protocol):
    """Arrays by name: their shapes at once, their values on demand (bfloat16 is handed out as float32)."""

    @property
    def shapes(self) -> Mapping[str, Shape]: ...

    def __getitem__(self, name: str) -> np.ndarray: ...


class Replaced:
    """Named arrays some of which are new; the others show through."""

    def __init__(self, arrays: NamedArrays, new: Mapping[str, np.ndarray]):
        self._arrays, self.new = arrays, new
        self.shapes: Mapping[str, Shape] = {**arrays.shapes, **{name: values.shape for name, values in new.items()}}

    def __getitem__(self, name: str) -> np.ndarray:
        return self.new[name] if name in self.new else self._arrays[name]


def instead(values: np.ndarray) -> Edit:
    """The edit that puts `values` in the place of an array."""
    return lambda old: values


@dataclass(frozen=True)
class Added:
    """The edit that makes an array where there was none. like: the name of an array beside which it is stored, in the
    same precision."""

    values: np.ndarray
    like: str

    def __call__(self, old: np.ndarray) -> np.ndarray:
        return self.values
