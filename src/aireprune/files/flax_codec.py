"""The msgpack dialect of flax.serialization, decoded and encoded without flax or jax.

Maps and plain values are ordinary msgpack. Extension 1 is an array packed as (shape, dtype name, bytes), 2 a complex
number, 3 a NumPy scalar packed like an array. An array of more than 2**30 bytes is a map that lists flat pieces.
Leaves stay as the bytes they came as until someone asks for their values, so what is not edited is written back
byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import msgpack
import numpy as np

from aireprune.errors import AireError
from aireprune.files.dtypes import cast, narrow, widen

NDARRAY = 1
CHUNK_BYTES = 2**30
CHUNKED = "__msgpack_chunked_array__"


@dataclass(frozen=True)
class Array:
    """One array leaf: what it is, and its node in the tree (an extension, or the map of a chunked array)."""

    shape: tuple[int, ...]
    dtype: str
    node: Any

    def values(self, where: str) -> np.ndarray:
        nodes = [self.node]
        if not isinstance(self.node, msgpack.ExtType):
            nodes = list(self.node["chunks"].values())
        flat = np.concatenate([_values(node, self.dtype, where) for node in nodes])
        return flat.reshape(self.shape)


def decode(data: bytes) -> Any:
    """The tree in a file; arrays stay `msgpack.ExtType`. ValueError if it is not msgpack."""
    try:
        return msgpack.unpackb(data, strict_map_key=False)
    except msgpack.UnpackException as error:
        raise ValueError(str(error) or type(error).__name__) from error


def encode(tree: Any) -> bytes:
    """The bytes flax would write for this tree."""
    return bytes(msgpack.packb(tree, strict_types=True))


def as_array(node: Any) -> Array | None:
    """The array a node stands for, or None. ValueError if it is a damaged one."""
    if isinstance(node, msgpack.ExtType) and node.code == NDARRAY:
        shape, dtype, data = _parts(node)
        size = _itemsize(dtype)
        if size is not None and prod(shape) * size != len(data):
            raise ValueError(f"shape {shape} as {dtype} needs {prod(shape) * size} bytes, but {len(data)} are there")
        return Array(shape, dtype, node)
    if isinstance(node, Mapping) and CHUNKED in node:
        shape = tuple(int(size) for size in node["shape"].values())
        pieces = [_parts(piece) for piece in node["chunks"].values()]
        if not pieces or sum(prod(piece[0]) for piece in pieces) != prod(shape):
            raise ValueError(f"its pieces do not add up to shape {shape}")
        return Array(shape, pieces[0][1], node)
    return None


def pack_array(values: np.ndarray, dtype: str, where: str, chunk_bytes: int = CHUNK_BYTES) -> Any:
    """A node for values in a dtype by name, in pieces if it is large."""
    stored = (
        narrow(cast(values, np.dtype("<f4"), where)) if dtype == "bfloat16" else cast(values, np.dtype(dtype), where)
    )
    if stored.nbytes <= chunk_bytes:
        return _pack(stored.shape, dtype, stored)
    step = max(1, chunk_bytes // stored.itemsize)
    flat = np.ascontiguousarray(stored).reshape(-1)
    pieces = [flat[start : start + step] for start in range(0, flat.size, step)]
    return {
        CHUNKED: True,
        "shape": {str(axis): size for axis, size in enumerate(stored.shape)},
        "chunks": {str(number): _pack(piece.shape, dtype, piece) for number, piece in enumerate(pieces)},
    }


def _pack(shape: tuple[int, ...], dtype: str, stored: np.ndarray) -> Any:
    return msgpack.ExtType(NDARRAY, msgpack.packb((shape, dtype, stored.tobytes()), use_bin_type=True))


def _parts(node: Any) -> tuple[tuple[int, ...], str, bytes]:
    shape, dtype, data = msgpack.unpackb(node.data, raw=True)
    return tuple(int(size) for size in shape), dtype.decode(), data


def _itemsize(dtype: str) -> int | None:
    """Bytes per element, or None for a type NumPy does not know; such arrays are carried as they are."""
    if dtype == "bfloat16":
        return 2
    try:
        return np.dtype(dtype).itemsize
    except TypeError:
        return None


def _values(node: Any, dtype: str, where: str) -> np.ndarray:
    data = _parts(node)[2]
    if dtype == "bfloat16":
        return widen(np.frombuffer(data, "<u2"))
    if _itemsize(dtype) is None:
        raise AireError(
            f"{where} is stored as {dtype}, whose values cannot be edited; convert it to float16 or wider first."
        )
    return np.frombuffer(data, dtype)
