"""Changes to valid inputs: of bytes, of JSON values and of pickles, all drawn from a random generator."""

from __future__ import annotations

import copy
import json
import pickletools
import struct
from random import Random
from typing import Any

NUMBERS = (0, 1, -1, 2, 7, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64, 10**30)
NAMES = ("", ".", "..", "a", "weight", "\0", "\x1b[31m", "\n", "\u202e", "ä", "é" * 50, "x" * 5000, "\ud800", "params")
VALUES: tuple[Any, ...] = (
    None, True, False, *NUMBERS, 0.5, -0.0, 1e300, float("nan"), float("inf"), *NAMES, [], {}, [[]], [{}], {"": {}},
    [0], [1, 2], [2**63, 2**63], ["a"], {"a": 1}, [[[[[[]]]]]],
)  # fmt: skip


def any_value(rng: Random) -> Any:
    """A value that is likely to be wrong."""
    return copy.deepcopy(rng.choice(VALUES))


def change_bytes(rng: Random, data: bytes) -> bytes:
    """One to four changes of bytes anywhere."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(7)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif kind == 2:
            del changed[at : at + rng.choice((1, 2, 4, 8, 100))]
        elif kind == 3:
            changed[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8, 100)))
        elif kind == 4:
            del changed[at:]
        elif kind == 5:
            number = rng.choice(NUMBERS) % 2**32
            changed[at : at + 4] = struct.pack(rng.choice(("<I", ">I")), number)
        else:
            start = rng.randrange(len(changed) + 1)
            changed[at:at] = changed[start : start + rng.choice((1, 8, 64))]
    return bytes(changed)


def change_json(rng: Random, value: Any) -> Any:
    """A JSON value with one to three of its parts replaced, removed, doubled or renamed."""
    changed = json.loads(json.dumps(value))
    for _ in range(rng.randint(1, 3)):
        changed = _change_part(rng, changed)
    return changed


def _change_part(rng: Random, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return any_value(rng)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    kind = rng.randrange(6)
    if kind == 0:
        del value[key]
    elif kind == 1 and isinstance(value, dict):
        value[rng.choice(NAMES)] = value.pop(key)
    elif kind == 2 and isinstance(value, list):
        value.insert(key, any_value(rng))
    elif kind == 3 and isinstance(value, dict):
        value[rng.choice(NAMES)] = any_value(rng)
    else:
        value[key] = _change_part(rng, value[key])
    return value


def json_bytes(rng: Random, value: Any) -> bytes:
    """A JSON document; at times damaged as text."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.8).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        return change_bytes(rng, text)
    if rng.random() < 0.05:
        name = rng.choice(NAMES)
        return text.rstrip(b"}") + f", {json.dumps(name)}: 1, {json.dumps(name)}: 2}}".encode()
    return text


def change_pickle(rng: Random, data: bytes) -> bytes:
    """A pickle with one to three instructions left out, doubled, moved, or given another argument."""
    places = [place for _, _, place in pickletools.genops(data) if place is not None]
    pieces = [data[start:end] for start, end in zip(places, [*places[1:], len(data)], strict=True)]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(pieces))
        kind = rng.randrange(6)
        if kind == 0 and len(pieces) > 1:
            del pieces[at]
        elif kind == 1:
            pieces.insert(at, rng.choice(pieces))
        elif kind == 2:
            other = rng.randrange(len(pieces))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        elif kind == 3:
            pieces[at] = rng.choice(INSTRUCTIONS)
        elif kind == 4:
            pieces[at] = pieces[at][:1] + change_bytes(rng, pieces[at][1:])
        else:
            pieces.insert(at, rng.choice(INSTRUCTIONS))
    return b"".join(pieces)


INSTRUCTIONS = (
    b"N", b"\x88", b"K\x00", b"K\xff", b"J\xff\xff\xff\xff", b"J\xff\xff\xff\x7f", b"\x8a\x09" + b"\xff" * 8 + b"\x7f",
    b"\x8a\xff" + b"\x7f" * 255, b"G\x7f\xf0\0\0\0\0\0\0", b"X\x01\0\0\0a", b"X\xff\xff\xff\xff", b"U\x01a",
    b"(", b")", b"t", b"\x85", b"\x86", b"\x87", b"]", b"a", b"e", b"}", b"s", b"u", b"h\x00", b"h\x05", b"q\x00",
    b"q\xff", b"r\xff\xff\xff\xff", b"j\xff\xff\xff\xff", b"R", b"\x81", b"b", b"Q", b"0", b"1", b".", b"\x8f", b"\x90",
    b"cos\nsystem\n", b"cposix\nsystem\n", b"cbuiltins\neval\n", b"c__builtin__\nset\n", b"c__builtin__\nbytearray\n",
    b"ctorch\nFloatStorage\n", b"ctorch\nfloat64\n", b"ctorch\nSize\n", b"ctorch\ndevice\n", b"ctorch\nTensor\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch._utils\n_rebuild_parameter\n",
    b"ctorch._utils\n_rebuild_tensor_v3\n", b"ctorch._tensor\n_rebuild_from_type_v2\n",
    b"ccollections\nOrderedDict\n", b"ccollections\nCounter\n", b"c_codecs\nencode\n", b"\x93", b"\x94", b"2", b"I01\n",
)  # fmt: skip
