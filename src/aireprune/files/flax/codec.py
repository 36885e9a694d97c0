"""The msgpack dialect of flax.serialization, without flax or jax.

Maps and plain values are ordinary msgpack. Extension 1 is an array packed as (shape, dtype name, bytes), 2 a complex
number, 3 a NumPy scalar packed like an array. An array of more than 2**30 bytes is a map that lists flat pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from aireprune.errors import AireError, shown
from aireprune.files.dtypes import cast, to_bfloat16, widen
from aireprune.files.flax.msgpack_tree import Extension, Listing, Map, Node, Number, Parser, Span, Text
from aireprune.files.shapes import elements, is_shape

NDARRAY = 1
CHUNK_BYTES = 2**30
CHUNKED = "__msgpack_chunked_array__"
SIZES = {
    name: np.dtype(name).itemsize
    for name in (
        "float16", "float32", "float64", "complex64", "complex128", "bool",
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    )
} | {"bfloat16": 2}  # fmt: skip


@dataclass(frozen=True)
class Array:
    """One array: what it is, and where in the file its bytes are, piece by piece."""

    shape: tuple[int, ...]
    dtype: str
    pieces: tuple[Span, ...]

    def values(self, read: Callable[[Span], np.ndarray], where: str) -> np.ndarray:
        """The values; `read` gets the bytes of a part of the file."""
        if self.dtype not in SIZES:
            raise AireError(
                f"{where} is stored as {shown(self.dtype)}, whose values cannot be edited; "
                "convert it to float16 or wider first."
            )
        parts = [read(piece) for piece in self.pieces]
        flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
        values = widen(flat.view("<u2")) if self.dtype == "bfloat16" else flat.view(self.dtype)
        return values.reshape(self.shape)


def as_array(data: Any, node: Node) -> Array | None:
    """The array a node stands for, or None. ValueError if it is a damaged one."""
    if isinstance(node, Extension) and node.code == NDARRAY:
        return _unpacked(data, node)
    if isinstance(node, Map) and CHUNKED in node.entries:
        sizes = [size.value if isinstance(size, Number) else -1 for size in _in_order(node, "shape")]
        pieces = [_unpacked(data, piece) for piece in _in_order(node, "chunks")]
        if not is_shape(sizes) or not pieces or sum(elements(piece.shape) for piece in pieces) != elements(sizes):
            raise ValueError(f"its pieces do not add up to shape {shown(sizes)}")
        if len({piece.dtype for piece in pieces}) != 1:
            raise ValueError("its pieces are of several types")
        return Array(tuple(sizes), pieces[0].dtype, tuple(span for piece in pieces for span in piece.pieces))
    return None


def pack_array(values: np.ndarray, dtype: str, where: str, chunk_bytes: int = CHUNK_BYTES) -> Any:
    """What msgpack packs as an array of a dtype by name, in pieces if it is large."""
    stored = to_bfloat16(values, where) if dtype == "bfloat16" else cast(values, np.dtype(dtype), where)
    if stored.nbytes <= chunk_bytes:
        return _packed(stored.shape, dtype, stored)
    step = max(1, chunk_bytes // stored.itemsize)
    flat = np.ascontiguousarray(stored).reshape(-1)
    pieces = [flat[start : start + step] for start in range(0, flat.size, step)]
    return {
        CHUNKED: True,
        "shape": {str(axis): size for axis, size in enumerate(stored.shape)},
        "chunks": {str(number): _packed(piece.shape, dtype, piece) for number, piece in enumerate(pieces)},
    }


def encode(node: Any) -> bytes:
    """The bytes flax would write for a node."""
    return bytes(msgpack.packb(node, strict_types=True))


def map_header(count: int) -> bytes:
    """What stands before the entries of a map."""
    return bytes(msgpack.Packer().pack_map_header(count))


def _packed(shape: tuple[int, ...], dtype: str, stored: np.ndarray) -> Any:
    return msgpack.ExtType(NDARRAY, msgpack.packb((shape, dtype, stored.tobytes()), use_bin_type=True))


def _unpacked(data: Any, node: Node) -> Array:
    """An array that is one extension."""
    if not isinstance(node, Extension) or node.code != NDARRAY:
        raise ValueError("a piece of it is no array")
    inner = Parser(data, node.body).whole()
    if not isinstance(inner, Listing) or len(inner.items) != 3:
        raise ValueError("expected its shape, type and bytes")
    shape, name, body = inner.items
    if not isinstance(shape, Listing) or not isinstance(name, Text) or not isinstance(body, Text):
        raise ValueError("expected its shape, type and bytes")
    sizes = [size.value if isinstance(size, Number) else -1 for size in shape.items]
    if not is_shape(sizes):
        raise ValueError(f"an impossible shape {shown(sizes)}")
    dtype = data[name.body.start : min(name.body.end, name.body.start + 100)].decode()
    size, found = SIZES.get(dtype), body.body.end - body.body.start
    if size is not None and elements(sizes) * size != found:
        raise ValueError(f"shape {tuple(sizes)} as {dtype} needs {elements(sizes) * size} bytes, but {found} are there")
    if elements(sizes) > 8 * found:
        raise ValueError(f"shape {tuple(sizes)} does not fit into {found} bytes")
    return Array(tuple(sizes), dtype, (body.body,))


def _in_order(node: Map, name: str) -> list[Node]:
    """The values of a map whose keys are "0", "1" and so on, in that order."""
    listed = node.entries[name].value if name in node.entries else None
    if not isinstance(listed, Map) or set(listed.entries) != {str(number) for number in range(len(listed.entries))}:
        raise ValueError(f"its {name} is no numbered list")
    return [listed.entries[str(number)].value for number in range(len(listed.entries))]
