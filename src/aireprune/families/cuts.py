"""What becomes of an array along its state axis when only some states stay: masked, removed, or removed and padded."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Protocol

import numpy as np

from aireprune.arrays import Shape


class Cut(Protocol):
    """What becomes of one array when only the states `kept` (ascending indices) stay."""

    def mask(self, values: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Same shape, the removed states silenced."""
        ...

    def remove(self, values: np.ndarray, kept: np.ndarray, size: int | None = None) -> np.ndarray:
        """The removed states taken out; with `size`, silent states fill up to that many (per group)."""
        ...

    def entries(self, shape: Shape) -> int:
        """How many entries of such an array belong to states."""
        ...


@dataclass(frozen=True)
class AxisCut:
    """States lie along one axis of the array. positions[i] lists where state i sits; the rest of the axis is untouched.

    silent: masking a state zeroes its entries here (the arrays that carry gains, not those that carry poles).
    fill: the value that padding states get here.
    """

    axis: int
    positions: np.ndarray  # (n, k)
    silent: bool = False
    fill: float = 0.0
    groups: int = 1

    def mask(self, values: np.ndarray, kept: np.ndarray) -> np.ndarray:
        if not self.silent:
            return values
        masked = values.copy()
        masked[(slice(None),) * self.axis + (self._gone(kept),)] = 0
        return masked

    def remove(self, values: np.ndarray, kept: np.ndarray, size: int | None = None) -> np.ndarray:
        marks = np.ones(values.shape[self.axis], bool)
        marks[self._gone(kept)] = False
        stay = np.flatnonzero(marks)
        if size is None:
            return values.take(stay, self.axis)
        # every run of states (one per group and column of positions) is padded at its own end
        runs = self.positions.reshape(self.groups, -1, self.positions.shape[1]).max(axis=1).ravel()
        ends = np.searchsorted(stay, runs, side="right")
        missing = size - len(kept) // self.groups
        index = np.insert(stay, np.repeat(ends, missing), -1)
        out = values.take(np.maximum(index, 0), self.axis)
        out[(slice(None),) * self.axis + (np.flatnonzero(index < 0),)] = self.fill
        return out

    def _gone(self, kept: np.ndarray) -> np.ndarray:
        """Where on the axis the other states sit."""
        marks = np.ones(len(self.positions), bool)
        marks[kept] = False
        return self.positions[marks].ravel()

    def entries(self, shape: Shape) -> int:
        return prod(shape[: self.axis]) * self.positions.size * prod(shape[self.axis + 1 :])


@dataclass(frozen=True)
class RaggedCut:
    """Rows of modes on axes (rows, rows + 1) of an array; row r holds the modes of copy r mod `copies`.

    State t * modes + j is mode j of copy t. After removal every row is as long as the longest, or `size`.
    """

    rows: int
    copies: int
    modes: int
    silent: bool = False
    fill: float = 0.0

    def keep(self, kept: np.ndarray) -> np.ndarray:
        """(copies, modes) of bool."""
        marks = np.zeros(self.copies * self.modes, bool)
        marks[kept] = True
        return marks.reshape(self.copies, self.modes)

    def width(self, kept: np.ndarray) -> int:
        """Stored modes per row after the removal."""
        return int(self.keep(kept).sum(axis=1).max(initial=0))

    def _on_rows(self, per_copy: np.ndarray, values: np.ndarray) -> np.ndarray:
        """(copies, w) repeated over the array's rows, with its number of axes."""
        full = np.tile(per_copy, (values.shape[self.rows] // self.copies, 1))
        return full.reshape((1,) * self.rows + full.shape + (1,) * (values.ndim - self.rows - 2))

    def mask(self, values: np.ndarray, kept: np.ndarray) -> np.ndarray:
        if not self.silent:
            return values
        return np.where(self._on_rows(self.keep(kept), values), values, np.zeros((), values.dtype))

    def remove(self, values: np.ndarray, kept: np.ndarray, size: int | None = None) -> np.ndarray:
        keep = self.keep(kept)
        width = self.width(kept) if size is None else size
        if width < self.width(kept):
            raise ValueError(f"a channel keeps {self.width(kept)} modes, more than the {width} asked for")
        front = np.argsort(~keep, axis=1, kind="stable")[:, :width]
        front = np.pad(front, ((0, 0), (0, width - front.shape[1])))
        filled = np.arange(width) >= keep.sum(axis=1, keepdims=True)
        if self.modes == 0:
            shape = (*values.shape[: self.rows + 1], width, *values.shape[self.rows + 2 :])
            return np.full(shape, self.fill, values.dtype)
        out = np.take_along_axis(values, self._on_rows(front, values), axis=self.rows + 1)
        return np.where(self._on_rows(filled, values), np.asarray(self.fill, values.dtype), out)

    def entries(self, shape: Shape) -> int:
        return prod(shape)


@dataclass(frozen=True)
class Rescaled:
    """A cut (if any) and then the factor a^power on the entries from `start` on, a^2 = states that stay / states.

    Masking needs no factor. A layer that loses all its states has no state part left to correct, so a = 1 then.
    """

    states: int
    power: int
    cut: Cut | None = None
    start: int = 0

    def mask(self, values: np.ndarray, kept: np.ndarray) -> np.ndarray:
        return self.cut.mask(values, kept) if self.cut else values

    def remove(self, values: np.ndarray, kept: np.ndarray, size: int | None = None) -> np.ndarray:
        stay = len(kept) if size is None else size
        a = np.sqrt(stay / self.states) if stay else 1.0
        out = self.cut.remove(values, kept, size) if self.cut else values.copy()
        out[self.start :] *= a**self.power
        return out

    def entries(self, shape: Shape) -> int:
        return self.cut.entries(shape) if self.cut else 0
