"""Arrays from .npy and .npz files that came from anywhere: plain numbers only, and none larger than its file warrants."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from aireprune.errors import AireError

LARGEST = 4 * 2**30  # bytes of one array
ROOM, FACTOR = 64 * 2**20, 100  # a compressed array may be this large plus so many times its file
LONGEST_HEADER = 2**16
PLAIN = "biufSU"  # kinds of numbers and of text

Choose = Callable[[list[str]], Iterable[str]]


def is_npz(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def read_npy(path: Path) -> np.ndarray:
    """The array of a .npy file; ValueError says what is wrong with the file, for the caller's sentence."""
    with path.open("rb") as file:
        return _array(file, min(LARGEST, path.stat().st_size))


def npy_shape(path: Path) -> tuple[int, ...]:
    """The shape of a .npy file's array; () for a file that is damaged, which reading it says."""
    with path.open("rb") as file:
        try:
            return _header(file)[0]
        except ValueError:
            return ()


def read_npz(path: Path, choose: Choose) -> dict[str, np.ndarray]:
    """The chosen ones of an .npz file's arrays, by name; ValueError says what is wrong with the file.

    choose: from the names that are there, those to read.
    """
    allowed = min(LARGEST, ROOM + FACTOR * path.stat().st_size)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            found = {}
            for name in choose(list(members)):
                with archive.open(members[name]) as file:
                    found[name] = _array(file, allowed)
            return found
    except (AireError, OSError, ValueError):
        raise
    except Exception as problem:  # zipfile and its decompressors raise whatever a damaged file makes of them
        raise ValueError(str(problem) or type(problem).__name__) from None


def _array(file: IO[bytes], allowed: int) -> np.ndarray:
    """The array that begins here, if it takes at most so many bytes."""
    shape, fortran, dtype = _header(file)
    if dtype.kind not in PLAIN or any(size < 0 for size in shape):
        raise ValueError(f"an array of type {dtype} and shape {shape}")
    count = math.prod(shape)
    if count * max(dtype.itemsize, 1) > allowed:
        raise ValueError(f"an array of {count} values, which is more than a file of this size can be trusted with")
    data = file.read(count * dtype.itemsize)
    if len(data) != count * dtype.itemsize:
        raise ValueError(f"it ends after {len(data)} of {count * dtype.itemsize} bytes")
    flat = np.frombuffer(bytearray(data), dtype, count) if data else np.zeros(count, dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether the first axis is the fastest, and type."""
    start = file.read(10)
    if len(start) < 10 or not start.startswith(npy.MAGIC_PREFIX) or start[6] not in (1, 2, 3):
        raise ValueError("it does not begin as a NumPy array does")
    start += file.read(2) if start[6] > 1 else b""
    length = int.from_bytes(start[8:], "little")
    if length > LONGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    rest = io.BytesIO(start[8:] + file.read(length))
    read = npy.read_array_header_1_0 if start[6] == 1 else npy.read_array_header_2_0
    try:
        return read(rest)
    except Exception as problem:  # NumPy evaluates the header as Python's literals, which can fail in any way
        raise ValueError(str(problem).splitlines()[0] if str(problem) else "a damaged header") from None
