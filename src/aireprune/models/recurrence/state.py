"""What independent streams remember between two steps, and the same as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from aireprune.errors import AireError

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout:
    """Where a stream's named arrays are in its memory: an index for every element, of the array's shape.

    size: numbers in all. silent: a place for all elements that are always zero. pooled: features whose sum is kept.
    """

    places: Mapping[str, np.ndarray]
    size: int
    pooled: int
    dtype: torch.dtype
    device: torch.device
    silent: int | None = None

    def shapes(self, batch: int) -> dict[str, tuple[int, ...]]:
        found = {name: (batch, *where.shape) for name, where in self.places.items()}
        found["seen"] = (batch,)
        return {**found, "pooled": (batch, self.pooled)} if self.pooled else found

    def bytes_per_stream(self) -> int:
        """Of the arrays; elements that are always zero do not count."""
        numbers = sum(int((where != self.silent).sum()) for where in self.places.values())
        return numbers * self.dtype.itemsize + 8 * (1 + self.pooled)


class State:
    """What `batch` streams remember: recurrent states, last inputs of convolutions, steps seen, features pooled so far.

    Streams are independent of one another. `arrays()` gives everything as NumPy arrays by name, with the stream on the
    first axis; `model.restore_state(arrays)` makes a state of them again.
    """

    def __init__(self, layout: Layout, batch: int):
        self.layout = layout
        self.memory = torch.zeros(batch, layout.size, dtype=layout.dtype, device=layout.device)
        self.pooled = torch.zeros(batch, layout.pooled, dtype=torch.float64, device=layout.device)
        self.seen = torch.zeros(batch, dtype=torch.int64, device=layout.device)

    @property
    def batch(self) -> int:
        return len(self.seen)

    @property
    def nbytes(self) -> int:
        return self.batch * self.layout.bytes_per_stream()

    def __repr__(self) -> str:
        return f"State(batch={self.batch}, nbytes={self.nbytes}, arrays={', '.join(self.layout.shapes(self.batch))})"

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies as plain NumPy arrays: what np.savez or safetensors save."""
        memory = self.memory.cpu().numpy()
        found = {name: memory[:, where] for name, where in self.layout.places.items()}
        found["seen"] = self.seen.cpu().numpy().copy()
        return {**found, "pooled": self.pooled.cpu().numpy().copy()} if self.layout.pooled else found

    def copy(self) -> State:
        same = State.__new__(State)
        same.layout = self.layout
        same.memory, same.pooled, same.seen = self.memory.clone(), self.pooled.clone(), self.seen.clone()
        return same

    def laid_out(self, layout: Layout) -> State:
        """The same streams in another layout; the state itself if that is its own."""
        return self if layout is self.layout else restored(layout, self.arrays())

    def views(self) -> dict[str, Tensor]:
        """The arrays themselves, for a layout that has them one behind the other."""
        found, at = {}, 0
        for name, where in self.layout.places.items():
            found[name] = self.memory[:, at : at + where.size].unflatten(1, where.shape)
            at += where.size
        return found


def restored(layout: Layout, arrays: Arrays) -> State:
    """A state of plain arrays; an error if they are not those of such a model."""
    batch = len(arrays["seen"]) if "seen" in arrays and np.ndim(arrays["seen"]) == 1 else 1
    expected = layout.shapes(batch)
    missing, more = [name for name in expected if name not in arrays], [name for name in arrays if name not in expected]
    if missing or more:
        what = f"{missing[0]} is missing" if missing else f"{more[0]} is not part of it"
        raise AireError(f"These arrays are not a state of this model: {what}. Expected are {', '.join(expected)}.")
    values = {name: np.asarray(arrays[name]) for name in expected}
    for name, shape in expected.items():
        if values[name].shape != shape:
            raise AireError(
                f"These arrays are not a state of this model: {name} has the shape {values[name].shape}, expected {shape}."
            )
    state = State(layout, batch)
    memory = np.zeros(state.memory.shape, str(layout.dtype).removeprefix("torch."))
    for name, where in layout.places.items():
        memory[:, where] = values[name]
    if layout.silent is not None:
        memory[:, layout.silent] = 0
    state.memory.copy_(torch.from_numpy(memory))
    state.seen.copy_(torch.from_numpy(values["seen"].astype(np.int64)))
    if layout.pooled:
        state.pooled.copy_(torch.from_numpy(values["pooled"].astype(np.float64)))
    return state


def consecutive(shapes: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, np.ndarray], int]:
    """Places of arrays that stand one behind the other, and how many there are."""
    places, at = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        places[name] = at + np.arange(size).reshape(shape)
        at += size
    return places, at
