"""How a family of state space layers is described over named arrays.

A checkpoint on disk and a module in memory are both `NamedArrays`. A `Family` finds its layers in them by names and
shapes, says what their states are, and says along which axes a state is cut. Nothing here knows about files or
frameworks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from aireprune.errors import AireError
from aireprune.method.states import LayerStates
from aireprune.method.system import ModalSystem

Shape = tuple[int, ...]


class NamedArrays(Protocol):
    """Arrays by name: their shapes at once, their values on demand (bfloat16 is handed out as float32)."""

    @property
    def shapes(self) -> Mapping[str, Shape]: ...

    def __getitem__(self, name: str) -> np.ndarray: ...


@dataclass(frozen=True)
class Layer:
    """One state space layer found among named arrays."""

    family: str
    name: str  # the prefix its arrays share
    states: int  # removable states
    arrays: Mapping[str, str]  # role in the layer -> full name
    options: Mapping[str, Any] = field(default_factory=dict)  # what names and shapes do not say
    groups: int = 1  # the states come in this many equal groups, of which equally many must stay

    def read(self, arrays: NamedArrays, role: str) -> np.ndarray:
        """The array of a role in double precision; anything that is not finite is an error that names it."""
        values = np.asarray(arrays[self.arrays[role]])
        values = values.astype(np.complex128 if np.iscomplexobj(values) else np.float64)
        if not np.isfinite(values).all():
            raise AireError(f"Tensor {self.arrays[role]} holds values that are not finite (NaN or infinite).")
        return values


class Cut(Protocol):
    """What becomes of one array when only the states `kept` (ascending indices) stay."""

    def mask(self, values: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Same shape, the removed states silenced."""
        ...

    def remove(self, values: np.ndarray, kept: np.ndarray, size: int | None = None) -> np.ndarray:
        """The removed states taken out; with `size`, silent states fill up to that many (per group)."""
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
        gone = np.setdiff1d(np.arange(len(self.positions)), kept)
        masked = values.copy()
        masked[(slice(None),) * self.axis + (self.positions[gone].ravel(),)] = 0
        return masked

    def remove(self, values: np.ndarray, kept: np.ndarray, size: int | None = None) -> np.ndarray:
        gone = np.setdiff1d(np.arange(len(self.positions)), kept)
        stay = np.setdiff1d(np.arange(values.shape[self.axis]), self.positions[gone])
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


class Family(Protocol):
    """A description; `FAMILIES` in `aireprune.families` lists them all."""

    name: str
    looked_for: str  # the names that make a layer, for the message when nothing is found

    def find(self, shapes: Mapping[str, Shape], config: Mapping[str, Any]) -> list[Layer]:
        """The layers of this family, whatever prefix they have."""
        ...

    def states(self, layer: Layer, arrays: NamedArrays) -> LayerStates:
        """What is scored."""
        ...

    def cuts(self, layer: Layer) -> dict[str, Cut]:
        """Full array name -> how it is cut. Arrays that are not named here never change."""
        ...

    def stored(self, layer: Layer, kept: np.ndarray) -> int:
        """How many states (per group or channel) the layer's arrays hold once only `kept` stay."""
        ...


@runtime_checkable
class LTIFamily(Family, Protocol):
    """A family whose layers are linear and time-invariant: they have Gramians, norms and better reductions."""

    def system(self, layer: Layer, arrays: NamedArrays) -> ModalSystem:
        """The layer with its full gains, without its D u path. Layers of channels are a batch of systems."""
        ...

    def members(self, layer: Layer) -> np.ndarray:
        """The removable state that each stored mode of the system belongs to. (*batch, n)"""
        ...

    def readout(self, layer: Layer, arrays: NamedArrays, c: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays (by full name) that hold a new readout c (*batch, d, o, n) of the stored modes."""
        ...

    def store(self, layer: Layer, arrays: NamedArrays, system: ModalSystem) -> dict[str, np.ndarray]:
        """The arrays (by full name) of a layer that is `system`, in the layout and precision of the old ones."""
        ...


def prefixes(shapes: Mapping[str, Shape], leaf: str) -> Iterator[str]:
    """Prefixes (with their trailing dot, or empty) of the arrays called `leaf`."""
    for name in shapes:
        if name == leaf or name.endswith("." + leaf):
            yield name[: len(name) - len(leaf)]


def positive(config: Mapping[str, Any], key: str, default: float) -> float:
    """A positive number of the configuration."""
    value = config.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise AireError(f"The configuration says {key} = {value!r}; expected a number above 0.")
    return float(value)


def anchored(shapes: Mapping[str, Shape], *anchors: tuple[str, ...]) -> list[str]:
    """Prefixes under which all arrays of at least one anchor are there, each once, in order.

    A layer is recognised by any of several sets of names, so that one whose most telling array is missing is reported
    as incomplete instead of being passed over.
    """
    found = {
        prefix: None for anchor in anchors for prefix in prefixes(shapes, anchor[0]) if _all(shapes, prefix, anchor)
    }
    return list(found)


def _all(shapes: Mapping[str, Shape], prefix: str, leaves: tuple[str, ...]) -> bool:
    return all(prefix + leaf in shapes for leaf in leaves)


def expect_shape(shapes: Mapping[str, Shape], name: str, expected: tuple[int | None, ...], why: str) -> Shape:
    """The shape of an array that must exist; None stands for any size."""
    if name not in shapes:
        raise AireError(f"Tensor {name} is missing: {why}.")
    found = tuple(shapes[name])
    if len(found) != len(expected) or any(e is not None and e != f for e, f in zip(expected, found, strict=True)):
        wanted = ", ".join("*" if e is None else str(e) for e in expected)
        raise AireError(f"Tensor {name} has shape {found}, expected ({wanted}): {why}.")
    return found
