"""The recurrent mode of a model on the CPU: its weights as the numba kernels take them, and the call.

Widths are padded to whole vectors; `Weights` lays arrays out that way, one behind the other, and says where each begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aireprune.kernels.numba.step_codes import MODEL, NORMS, ROWS

VECTOR_BYTES = 64
ENOUGH = 1 << 21  # multiplications in a call that are worth starting threads


class Weights:
    """Arrays of one type, gathered into one."""

    def __init__(self, dtype: np.dtype):
        self.dtype, self.lanes = dtype, VECTOR_BYTES // dtype.itemsize
        self._parts: list[np.ndarray] = []
        self._size = 0

    def width(self, *sizes: int) -> int:
        """What sections of these sizes take, each padded to whole vectors."""
        return sum(-(-size // self.lanes) * self.lanes for size in sizes)

    def places(self, *sizes: int) -> np.ndarray:
        """Where the elements of such sections are, (sum of sizes,)."""
        starts = [self.width(*sizes[:number]) for number in range(len(sizes))]
        return np.concatenate([start + np.arange(size) for start, size in zip(starts, sizes, strict=True)])

    def add(self, *values: np.ndarray) -> int:
        """Put arrays behind one another as they are; returns where the first begins."""
        at = self._size
        for part in values:
            flat = np.ascontiguousarray(part, self.dtype).reshape(-1)
            self._parts.append(flat)
            self._size += flat.size
        fill = -self._size % self.lanes
        self._parts.append(np.zeros(fill, self.dtype))
        self._size += fill
        return at

    def vector(self, values: np.ndarray, *sizes: int) -> np.ndarray:
        """values (.., sum of sizes) with every section padded: (.., width)."""
        sizes = sizes or (values.shape[-1],)
        out = np.zeros((*values.shape[:-1], self.width(*sizes)), self.dtype)
        out[..., self.places(*sizes)] = values
        return out

    def product(
        self, weight: np.ndarray, bias: np.ndarray | None, rows: Sequence[int] = (), columns: Sequence[int] | None = ()
    ) -> int:
        """A matrix (n, k), packed, and its bias (n,). rows, columns: sections of n and k; columns None: k is not padded."""
        from aireprune.kernels.numba.step_products import pack

        if columns is not None:
            weight = self.vector(weight, *columns)
        matrix = np.ascontiguousarray(self.vector(weight.T, *rows).T, self.dtype)
        bias = np.zeros(weight.shape[0]) if bias is None else bias
        packed = np.empty(matrix.size, self.dtype)
        pack(matrix, packed)
        return self.add(packed, self.vector(bias, *rows))

    def norm(self, norm: Norm) -> dict[str, int]:
        """The fields norm and norm_at of a record."""
        if norm.kind == "none":
            return {"norm": NORMS.index("none"), "norm_at": 0}
        at = self.add(self.vector(norm.scale), self.vector(norm.offset), np.array([norm.eps]))
        return {"norm": NORMS.index(norm.kind), "norm_at": at}

    def all(self) -> np.ndarray:
        return np.concatenate(self._parts)


@dataclass(frozen=True, kw_only=True)
class Norm:
    """kind: of `aireprune.kernels.numba.step_codes.NORMS`; scale, offset (features,)."""

    kind: str
    scale: np.ndarray
    offset: np.ndarray
    eps: float


@dataclass(frozen=True, kw_only=True)
class Program:
    """A model for `advance`: records, the weights and indices that they point at, and how much a call needs.

    memory: numbers that a stream remembers. room: numbers of scratch for one thread.
    """

    model: np.ndarray
    layers: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    memory: int
    room: int
    nothing: np.ndarray  # no rows of numbers, for calls with tokens

    def workers(self, streams: int, steps: int) -> int:
        """How many threads a call is worth."""
        from aireprune.kernels.numba.compile import threads

        return min(threads(), streams) if streams * steps * self.weights.size >= ENOUGH else 1


def make_program(
    model: Mapping[str, int], record: np.dtype, layers: Sequence[Mapping[str, int]], weights: Weights, needs: Needs
) -> Program:
    """record: of the family, one of `aireprune.kernels.numba.step_codes`."""
    answer = ROWS * (2 * model["width"] + model["answers_width"])
    return Program(
        model=_records(MODEL, [model]),
        layers=_records(record, layers),
        weights=weights.all(),
        places=np.concatenate([np.zeros(0, np.int64), *needs.places]),
        memory=needs.memory,
        room=answer + ROWS * max(needs.rows, default=0) + weights.lanes,
        nothing=np.zeros((0, model["inputs"]), weights.dtype),
    )


@dataclass(frozen=True, kw_only=True)
class Needs:
    """memory: numbers of a stream. rows: of every layer, numbers of scratch per row. places: indices that layers use."""

    memory: int
    rows: Sequence[int]
    places: Sequence[np.ndarray] = ()


def _records(record: np.dtype, found: Sequence[Mapping[str, int]]) -> np.ndarray:
    assert record.names is not None
    return np.array([tuple(fields[name] for name in record.names) for fields in found], record)


@dataclass(frozen=True, kw_only=True)
class Streams:
    """What is brought up to date: memory (streams, ..), pooled (streams, features) float64, seen (streams,) int64."""

    memory: np.ndarray
    pooled: np.ndarray
    seen: np.ndarray


_NO_TOKENS = np.zeros(0, np.int64)


def advance(program: Program, x: np.ndarray, steps: int, streams: Streams, room: np.ndarray, out: np.ndarray) -> bool:
    """`steps` steps of every stream, in place and without allocating; False, and nothing done, if a token is unknown.

    x (streams steps, inputs), or tokens (streams steps,) int64. room (workers, ..) is scratch. out: (streams, answers), or
    (streams steps, answers) in mode tokens.
    """
    from aireprune.kernels.numba import step

    run: Any = step.advance if len(room) == 1 else step.advance_parallel
    x, tokens = (program.nothing, x) if x.ndim == 1 else (x, _NO_TOKENS)
    model, layers, weights, places = program.model, program.layers, program.weights, program.places
    memory, pooled, seen = streams.memory, streams.pooled, streams.seen
    return bool(run(x, tokens, steps, model, layers, weights, places, memory, pooled, seen, room, out))
