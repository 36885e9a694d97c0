"""How a family of state space layers is described over named arrays.

A checkpoint on disk and a module in memory are both `NamedArrays`. A `Family` finds its layers in them by names and
shapes, says what their states are, and says along which axes a state is cut. Nothing here knows about files or
frameworks. docs/adding-a-family.md shows how a new one is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from aireprune.arrays import NamedArrays, Shape
from aireprune.errors import AireError
from aireprune.families.cuts import Cut
from aireprune.families.state_axes import StateAxes
from aireprune.method.states import LayerStates
from aireprune.method.system import ModalSystem

GRANULARITIES = ("mode", "state")
Options = TypeVar("Options")


@dataclass(frozen=True, kw_only=True)
class Units:
    """What counts as one removable state, and which tensors it is cut from, where a family leaves that open.

    granularity (S4D): 'mode', every channel chooses its own modes, or 'state', one index goes from all channels. even
    (S4D): all channels of a layer keep equally many, so that their rows need no filling up. state_axes: of tensors that
    no family knows; masking and padding states get zeros there.
    """

    granularity: str = "mode"
    even: bool = False
    state_axes: StateAxes = field(default_factory=StateAxes)

    def __post_init__(self) -> None:
        if self.granularity not in GRANULARITIES:
            raise AireError(f"The granularity is {' or '.join(GRANULARITIES)}, not {self.granularity!r}.")


@dataclass(frozen=True)
class Layer(Generic[Options]):
    """One state space layer found among named arrays."""

    family: str
    name: str  # the prefix its arrays share
    states: int  # removable states
    arrays: Mapping[str, str]  # role in the layer -> full name
    options: Options  # what names and shapes do not say, in the family's own type
    groups: int = 1  # the states come in this many equal groups, of which equally many must stay
    rows: int = 1  # the modes lie in this many rows, which may keep different numbers and are stored equally long
    carried: int = 2  # real numbers that a mode carries from step to step, per direction: 2 if it is complex
    feedthrough: str | None = None  # full name of D in y = C x + D u
    declared: Mapping[str, Cut] = field(default_factory=dict)  # full names of further tensors along its states

    def relative(self, name: str) -> str:
        """The name of one of its arrays without the prefix they share."""
        return name.removeprefix(f"{self.name}.") if self.name else name

    def read(self, arrays: NamedArrays, role: str) -> np.ndarray:
        """The array of a role in double precision; anything that is not finite is an error that names it."""
        return finite(arrays, self.arrays[role])


class Family(Protocol[Options]):
    """A description; `FAMILIES` in `aireprune.families` lists them all."""

    name: str
    looked_for: str  # the names that make a layer, for the message when nothing is found
    stock: frozenset[str]  # names, without the prefix, of tensors that such layers may have and that hold no states

    def find(self, arrays: NamedArrays, config: Mapping[str, Any], units: Units = Units()) -> list[Layer[Options]]:
        """The layers of this family, whatever prefix they have."""
        ...

    def states(self, layer: Layer[Options], arrays: NamedArrays) -> LayerStates:
        """What is scored."""
        ...

    def cuts(self, layer: Layer[Options]) -> dict[str, Cut]:
        """Full array name -> how it is cut, declared ones included. Arrays that are not named here never change."""
        ...

    def axis_lengths(self, layer: Layer[Options]) -> dict[int, np.ndarray | None]:
        """Lengths that axes along the states have -> where each state lies on such an axis, (states, k).

        None where that cannot be said of a tensor that is not known.
        """
        ...

    def stored(self, layer: Layer[Options], kept: np.ndarray) -> int:
        """How many states (per group or channel) the layer's arrays hold once only `kept` stay."""
        ...

    def describe(self, layers: list[Layer[Options]]) -> dict[str, Any]:
        """What an output's configuration should say because fewer states may no longer show it."""
        ...


@runtime_checkable
class LTIFamily(Family[Options], Protocol[Options]):
    """A family whose layers are linear and time-invariant: they have Gramians, norms and better reductions."""

    def system(self, layer: Layer[Options], arrays: NamedArrays) -> ModalSystem:
        """The layer with its full gains, without its D u path. Layers of channels are a batch of systems."""
        ...

    def members(self, layer: Layer[Options]) -> np.ndarray:
        """The removable state that each stored mode of the system belongs to. (*batch, n)"""
        ...

    def readout(self, layer: Layer[Options], arrays: NamedArrays, c: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays (by full name) that hold a new readout c (*batch, d, o, n) of the stored modes."""
        ...

    def store(self, layer: Layer[Options], arrays: NamedArrays, system: ModalSystem) -> dict[str, np.ndarray]:
        """The arrays (by full name) of a layer that is `system`, in the layout and precision of the old ones."""
        ...

    def resized(self, layer: Layer[Options], size: int) -> Layer[Options]:
        """The same layer once its arrays hold `size` modes (per channel)."""
        ...


def finite(arrays: NamedArrays, name: str) -> np.ndarray:
    """An array in double precision; values that are not finite are an error that names it."""
    values = np.asarray(arrays[name])
    values = values.astype(np.complex128 if np.iscomplexobj(values) else np.float64)
    if not np.isfinite(values).all():
        raise AireError(f"Tensor {name} holds values that are not finite (NaN or infinite).")
    return values


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


def plain_lengths(states: int, before: int = 0) -> dict[int, np.ndarray | None]:
    """Lengths of axes with the states once, or twice as for B and C; alone, or behind so many other entries.

    Each with where a state lies on it, (states, k), or None if it can be read in two ways.
    """
    once = np.arange(states)[:, None]
    twice = np.concatenate([once, once + states], axis=1)
    found: dict[int, np.ndarray | None] = {}
    for first in dict.fromkeys((0, before)):
        for positions in (once, twice):
            length = first + positions.size
            found[length] = None if states and length in found else first + positions
    return found


def feedthrough(shapes: Mapping[str, Shape], prefix: str) -> str | None:
    """The name of D, a tensor of the layer's own module or of the one around it (around all that are called kernel)."""
    outer = prefix.rstrip(".").rpartition(".")[0]
    around = outer
    while around.rpartition(".")[2] == "kernel":
        around = around.rpartition(".")[0]
    candidates = (f"{prefix}D", *(f"{module}.D" if module else "D" for module in (outer, around)), "D")
    return next((name for name in candidates if name in shapes), None)
