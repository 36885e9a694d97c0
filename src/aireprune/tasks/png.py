"""Grey pictures, and just enough PNG for LRA's pictures: 8-bit grey, grey with alpha, RGB or RGBA, not interlaced."""

# mypy: allow-untyped-decorators

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from numba import njit

from aireprune.errors import AireError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LARGEST = 2**26  # bytes of a picture
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # colour type -> bytes of a pixel
LUMA = np.array([19595, 38470, 7471], np.uint32)  # (0.299, 0.587, 0.114) * 65536


def read_png(path: Path) -> np.ndarray:
    """The grey values (height, width) uint8; colour becomes luma, alpha is left out."""
    try:
        data = path.read_bytes()
        return decode_png(data)
    except (OSError, ValueError, KeyError, zlib.error, struct.error) as error:
        raise AireError(f"{path} is not a readable 8-bit PNG ({error}).") from error


def decode_png(data: bytes) -> np.ndarray:
    if not data.startswith(SIGNATURE):
        raise ValueError("it does not begin with the PNG signature")
    header, packed, place = b"", [], len(SIGNATURE)
    while place + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        body = data[place + 8 : place + 8 + size]
        if kind == b"IHDR":
            header = body
        elif kind == b"IDAT":
            packed.append(body)
        place += size + 12  # length, kind and checksum take 12 bytes
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    if depth != 8 or interlaced or colour not in CHANNELS:
        raise ValueError(f"{depth} bits per value, colour type {colour}, interlacing {interlaced}")
    channels = CHANNELS[colour]
    size = height * (1 + width * channels)
    if not 0 < size <= LARGEST:
        raise ValueError(f"{width} x {height} pixels")
    rows = np.frombuffer(zlib.decompressobj().decompress(b"".join(packed), size), np.uint8)
    rows = rows.reshape(height, 1 + width * channels)
    if rows[:, 0].max() > 4:
        raise ValueError("a row has an unknown filter")
    pixels = unfilter(rows, channels).reshape(height, width, channels)
    return pixels[:, :, 0] if channels < 3 else luma(pixels[:, :, :3])


def luma(colours: np.ndarray) -> np.ndarray:
    """Red, green and blue (..., 3) uint8 -> grey (...), rounded as every image library does."""
    grey: np.ndarray = (colours.astype(np.uint32) @ LUMA + 0x8000) >> 16
    return grey.astype(np.uint8)


@njit(cache=True)
def unfilter(rows: np.ndarray, step: int) -> np.ndarray:
    """Undo the filter of every row (its first byte) -> (height, width * step). Section 9 of the PNG standard."""
    height, width = rows.shape[0], rows.shape[1] - 1
    out = np.zeros((height, width), np.uint8)
    for y in range(height):
        kind = rows[y, 0]
        for i in range(width):
            left = int(out[y, i - step]) if i >= step else 0
            up = int(out[y - 1, i]) if y > 0 else 0
            corner = int(out[y - 1, i - step]) if y > 0 and i >= step else 0
            guess = 0
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = up
            elif kind == 3:
                guess = (left + up) // 2
            elif kind == 4:
                a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
                guess = left if a <= b and a <= c else (up if b <= c else corner)
            out[y, i] = (rows[y, i + 1] + guess) % 256
    return out
